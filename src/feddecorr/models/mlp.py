"""A plain multi-layer perceptron."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Literal

from pydantic import Field, PositiveInt
from torch import nn

from feddecorr.models.model import Model, Shape

NORMS: dict[str, Callable[[int], list[nn.Module]]] = {
    "none": lambda _: [],
    "batch": lambda width: [nn.BatchNorm1d(width)],
    "layer": lambda width: [nn.LayerNorm(width)],
}


class MLP(Model):
    """Fully connected layers with ReLU; fast. With no hidden layers it is logistic regression."""

    widths: tuple[PositiveInt, ...] = Field(
        (256, 256), description="hidden widths, of which the last is d; with [], the pixels are the classifier's input"
    )
    norm: Literal["none", "batch", "layer"] = Field("none", description="normalization before each ReLU")
    final_relu: bool = Field(
        True, description="ReLU after the last hidden layer, too; false leaves the representation linear"
    )

    def features(self, shape: Shape) -> tuple[nn.Module, int]:
        """Return the hidden layers."""
        widths = math.prod(shape), *self.widths
        layers: list[nn.Module] = [nn.Flatten()]
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), *NORMS[self.norm](after), nn.ReLU()]
        if not self.final_relu and self.widths:
            layers.pop()
        return nn.Sequential(*layers), widths[-1]
