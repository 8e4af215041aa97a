"""What networks of normalized convolutions have in common."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor, nn

from feddecorr.models.model import Model

STEP = 8
"""Channels of networks whose width is changed are multiples of it."""


class Normalized(Model):
    """A network whose convolutions are each followed by BatchNorm or, in its place, GroupNorm."""

    norm: Literal["batch", "group"] = Field("batch", description="BatchNorm or GroupNorm (no running statistics)")
    groups: PositiveInt = Field(8, description="groups of GroupNorm; fewer where they don't divide the channels")

    def convolution(self, before: int, after: int, size: int = 3, *, stride: int = 1, groups: int = 1) -> nn.Sequential:
        """Return a convolution that keeps height and width (up to the stride), and its normalization."""
        return nn.Sequential(
            nn.Conv2d(before, after, size, stride=stride, padding=size // 2, groups=groups, bias=False),
            self._norm(after),
        )

    def _norm(self, channels: int) -> nn.Module:
        if self.norm == "batch":
            return nn.BatchNorm2d(channels)
        return nn.GroupNorm(math.gcd(self.groups, channels), channels)


class Sized(Normalized):
    """A published network that also comes thinner and on coarser maps, to fit where the whole one is too slow."""

    width: PositiveFloat = Field(1.0, description="factor of the channels of its layers, which stay multiples of 8")
    stem: Literal[1, 2] = Field(1, description="stride of the first convolution; 2 quarters the work of all layers")

    def channels(self, published: int) -> int:
        """Return the channels of a layer: the nearest multiple of 8 that takes off a tenth at most (Sandler et al.)."""
        wished = self.width * published
        nearest = max(STEP, int(wished + STEP / 2) // STEP * STEP)
        return nearest + STEP if nearest < 0.9 * wished else nearest


class Residual(nn.Module):
    """The sum of a path and a shortcut around it."""

    def __init__(self, path: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.path = path
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        """Add the two."""
        total: Tensor = self.path(x) + self.shortcut(x)
        return total


def pool() -> nn.Sequential:
    """Return the mean over height and width, whatever they are."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
