"""A plain multi-layer perceptron."""

from __future__ import annotations

import math
from itertools import pairwise

from pydantic import Field, PositiveInt
from torch import nn

from feddecorr.models.model import Model, Shape


class MLP(Model):
    """Fully connected layers with ReLU; fast, without BatchNorm. Without any, it is logistic regression."""

    widths: tuple[PositiveInt, ...] = Field(
        (256, 256), description="hidden widths; the last is d; of [], the classifier takes the pixels"
    )

    def features(self, shape: Shape) -> tuple[nn.Module, int]:
        """Return the hidden layers."""
        widths = math.prod(shape), *self.widths
        layers: list[nn.Module] = [nn.Flatten()]
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.ReLU()]
        return nn.Sequential(*layers), widths[-1]
