"""A small convolutional network with BatchNorm."""

from __future__ import annotations

from itertools import pairwise

from pydantic import Field, PositiveInt
from torch import nn

from feddecorr.models.model import Model


class ConvNet(Model):
    """Strided 3×3 convolutions with BatchNorm and ReLU, averaged over the image; small and quick."""

    widths: tuple[PositiveInt, ...] = Field(
        (32, 64, 128, 512), min_length=1, description="channels of each convolution; the last is d"
    )

    def build(self, shape: tuple[int, int, int], classes: int) -> nn.Module:
        """Return the network; every convolution halves height and width."""
        layers: list[nn.Module] = []
        for before, after in pairwise((shape[0], *self.widths)):
            convolution = nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False)
            layers += [convolution, nn.BatchNorm2d(after), nn.ReLU()]
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        return nn.Sequential(*layers, nn.Linear(self.widths[-1], classes))
