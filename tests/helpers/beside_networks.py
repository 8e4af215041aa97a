"""Networks of fully connected layers that are out of the ordinary, but can be trained side by side."""

from __future__ import annotations

import math

from torch import nn


def frozen(classes: int, shape: tuple[int, int, int]) -> nn.Module:
    """Return a network whose first layer is not trained, and whose second has no bias."""
    first = nn.Linear(math.prod(shape), 12).requires_grad_(False)
    return nn.Sequential(nn.Flatten(), first, nn.Tanh(), nn.Linear(12, 6, bias=False), nn.GELU(), nn.Linear(6, classes))


def repeated(classes: int, shape: tuple[int, int, int]) -> nn.Module:
    """Return a network that goes through the same layers twice."""
    layer, bend = nn.Linear(math.prod(shape), math.prod(shape)), nn.ReLU()
    return nn.Sequential(nn.Flatten(), layer, bend, layer, bend, nn.Linear(math.prod(shape), classes))
