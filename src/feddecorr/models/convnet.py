"""A small convolutional network with BatchNorm."""

from __future__ import annotations

from itertools import pairwise

from pydantic import Field, PositiveInt
from torch import nn

from feddecorr.models.model import ConvolutionalModel, Shape, pool


class ConvNet(ConvolutionalModel):
    """Strided 3×3 convolutions with BatchNorm and ReLU, averaged over the image; small and fast."""

    widths: tuple[PositiveInt, ...] = Field(
        (32, 64, 128, 512), min_length=1, description="channels of each convolution; the last is d"
    )

    def features(self, shape: Shape) -> tuple[nn.Module, int]:
        """Return the layers; every convolution halves height and width."""
        layers: list[nn.Module] = []
        for before, after in pairwise((shape[0], *self.widths)):
            layers += [*self.convolution(before, after, stride=2), nn.ReLU()]
        return nn.Sequential(*layers, *pool()), self.widths[-1]
