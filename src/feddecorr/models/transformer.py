"""A small vision transformer."""

from __future__ import annotations

from typing import Self

import torch
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn

from feddecorr.models.model import Model, Shape

POSITION_STD = 0.02
"""Standard deviation of the initial position embeddings, as in Dosovitskiy et al."""


class Transformer(Model):
    """A vision transformer (Dosovitskiy et al., ICLR 2021), small: the mean over all patches is the representation.

    LayerNorm before attention, before the hidden layer (GELU) and at the end; no dropout.
    """

    patch: PositiveInt = Field(
        4, description="height and width of a patch; image borders that do not fill a patch are cut off"
    )
    width: PositiveInt = Field(64, description="d, the width of all layers")
    depth: PositiveInt = Field(2, description="attention layers")
    heads: PositiveInt = Field(4, description="attention heads; they divide the width")

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"{self.heads} heads do not divide a width of {self.width}")
        return self

    def features(self, shape: Shape) -> tuple[nn.Module, int]:
        """Return patches, attention layers, and the mean."""
        channels, *sides = shape
        count = (sides[0] // self.patch) * (sides[1] // self.patch)
        layers = [
            nn.TransformerEncoderLayer(
                self.width,
                self.heads,
                dim_feedforward=2 * self.width,
                dropout=0.0,
                activation="gelu",
                batch_first=True,
                norm_first=True,
            )
            for _ in range(self.depth)
        ]
        return nn.Sequential(
            Patches(channels, self.width, self.patch, count), *layers, nn.LayerNorm(self.width), PatchMean()
        ), self.width


class Patches(nn.Module):
    """Turns images into a vector for each patch, with its position added: (n, c, h, w) → (n, patches, width)."""

    def __init__(self, channels: int, width: int, size: int, count: int) -> None:
        super().__init__()
        self.cut = nn.Conv2d(channels, width, size, stride=size)
        self.positions = nn.Parameter(POSITION_STD * torch.randn(1, count, width))

    def forward(self, x: Tensor) -> Tensor:
        """Embed the patches, and add their positions."""
        patches: Tensor = self.cut(x).flatten(2).mT.contiguous() + self.positions
        return patches


class PatchMean(nn.Module):
    """The mean over all patches."""

    def forward(self, x: Tensor) -> Tensor:
        """Average over the second axis."""
        return x.mean(1)
