"""A plain multi-layer perceptron."""

from __future__ import annotations

import math
from itertools import pairwise

from pydantic import Field, PositiveInt
from torch import nn

from feddecorr.models.model import Model, Shape


class MLP(Model):
    """Fully connected layers with ReLU; fast, without BatchNorm."""

    widths: tuple[PositiveInt, ...] = Field((256, 256), description="hidden widths; the last is d")

    def features(self, shape: Shape) -> tuple[nn.Module, int]:
        """Return the hidden layers."""
        layers: list[nn.Module] = [nn.Flatten()]
        for before, after in pairwise((math.prod(shape), *self.widths)):
            layers += [nn.Linear(before, after), nn.ReLU()]
        return nn.Sequential(*layers), self.widths[-1] if self.widths else math.prod(shape)
