"""Networks that are out of the ordinary, but can be trained side by side."""

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


def mapped(classes: int, shape: tuple[int, int, int]) -> nn.Module:
    """Return a network of maps with groups of channels, biases, a norm without factors and one that is not trained."""
    channels = shape[0]
    return nn.Sequential(
        nn.Softplus(),
        nn.BatchNorm2d(channels, affine=False),
        nn.Conv2d(channels, 4, 3, padding="same", dilation=2, groups=2),
        nn.BatchNorm2d(4, momentum=0.3, eps=1e-3).requires_grad_(False),
        nn.SiLU(),
        nn.AvgPool2d(2),
        nn.GroupNorm(2, 4, affine=False),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16, classes),
    )
