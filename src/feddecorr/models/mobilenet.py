"""MobileNetV2 for small images."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveInt
from torch import nn

from feddecorr.models.model import Residual, ScalableModel, Shape, pool

STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 1),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, blocks and first stride of each stage (Sandler et al., 2018, table 2).

For 32×32 images the stem and the second stage have stride 1 where the table has 2.
"""

FIRST, LAST = 32, 1280


class MobileNetV2(ScalableModel):
    """MobileNetV2 (Sandler et al., 2018) with the stem for 32×32 images; d = 1280; the paper's main network.

    The paper's authors trained a variant that differs from Sandler et al. in three ways: a 1×1 convolution as
    shortcut where the width changes at stride 1 (otherwise there is none), an expansion layer even where the
    expansion is 1, and ReLU in place of ReLU6. That is `released`; `original` is as published. d is 1280 at any
    width, as in the thin networks of Sandler et al.
    """

    variant: Literal["released", "original"] = Field(
        "released", description="as in the code of the paper's authors, or as published by Sandler et al."
    )
    blocks: PositiveInt | None = Field(
        None, description="maximal number of blocks of a stage; by default as published, up to 4"
    )

    def features(self, shape: Shape) -> tuple[nn.Module, int]:
        """Return the layers; height and width are halved three times, then averaged."""
        before = self.channels(FIRST)
        layers = [*self.convolution(shape[0], before, stride=self.stem), self._relu()]
        for expansion, published, blocks, stride in STAGES:
            after = self.channels(published)
            for block in range(min(blocks, self.blocks or blocks)):
                layers.append(self._block(before, after, expansion, 1 if block else stride))
                before = after
        layers += [*self.convolution(before, LAST, 1), self._relu(), *pool()]
        return nn.Sequential(*layers), LAST

    def _block(self, before: int, after: int, expansion: int, stride: int) -> nn.Module:
        """Return an inverted residual: expand, filter each channel separately, and project linearly."""
        wide = before * expansion
        released = self.variant == "released"
        expand = [*self.convolution(before, wide, 1), self._relu()] if released or expansion > 1 else []
        path = nn.Sequential(
            *expand,
            *self.convolution(wide, wide, stride=stride, groups=wide),
            self._relu(),
            *self.convolution(wide, after, 1),
        )
        if stride == 1 and before == after:
            return Residual(path, nn.Identity())
        if stride == 1 and released:
            return Residual(path, self.convolution(before, after, 1))
        return path

    def _relu(self) -> nn.Module:
        return nn.ReLU() if self.variant == "released" else nn.ReLU6(inplace=True)
