"""Networks that are out of the ordinary, but can be trained at once."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


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


class Counting(nn.Module):
    """A network of the user's own: one buffer is updated in place, one is assigned, and both act."""

    mean: Tensor
    passes: Tensor

    def __init__(self, classes: int, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.first = nn.Linear(math.prod(shape), 6)
        self.scale = nn.Parameter(torch.ones(6))
        self.register_buffer("mean", torch.zeros(6))
        self.register_buffer("passes", torch.zeros(()))
        self.classifier = nn.Linear(6, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Follow the mean, and count."""
        x = self.first(x.flatten(1))
        if self.training:
            self.mean.mul_(0.9).add_(0.1 * x.detach().mean(0))
            self.passes = self.passes + 1
        logits: Tensor = self.classifier(torch.sin(self.scale * (x - self.mean)) / self.passes.clamp(1, 9).sqrt())
        return logits


def dropped(classes: int, shape: tuple[int, int, int]) -> nn.Module:
    """Return a network that cannot be: it draws random numbers."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), 6), nn.Dropout(), nn.Linear(6, classes))


def hooked(classes: int, shape: tuple[int, int, int]) -> nn.Module:
    """Return a network that cannot be: a hook changes what a layer gives."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), 6), nn.Linear(6, classes))
    model[1].register_forward_hook(lambda _module, _inputs, output: 2 * output)
    return model
