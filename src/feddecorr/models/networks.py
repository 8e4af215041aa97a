"""The networks: a small convolutional one, a perceptron, LeNet-5, MobileNetV2, ResNets and a vision transformer."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import ClassVar, Literal, Self

import torch
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn
from torch.nn.functional import pad

from feddecorr.models.model import ConvolutionalModel, Model, Residual, ScalableModel, Shape, pool


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


NORMS: dict[str, Callable[[int], list[nn.Module]]] = {
    "none": lambda _: [],
    "batch": lambda width: [nn.BatchNorm1d(width)],
    "layer": lambda width: [nn.LayerNorm(width)],
}


class MLP(Model):
    """Fully connected layers with ReLU; fast. With no hidden layers it is logistic regression."""

    widths: tuple[PositiveInt, ...] = Field(
        (256, 256), description="hidden widths, of which the last is d; with [], the pixels are the classifier's input"
    )
    norm: Literal["none", "batch", "layer"] = Field("none", description="normalization before each ReLU")
    final_relu: bool = Field(
        True, description="ReLU after the last hidden layer, too; false leaves the representation linear"
    )

    def features(self, shape: Shape) -> tuple[nn.Module, int]:
        """Return the hidden layers."""
        widths = math.prod(shape), *self.widths
        layers: list[nn.Module] = [nn.Flatten()]
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), *NORMS[self.norm](after), nn.ReLU()]
        if not self.final_relu and self.widths:
            layers.pop()
        return nn.Sequential(*layers), widths[-1]


LENET_SIZE = 32


class LeNet(Model):
    """LeNet-5 (LeCun et al., 1998) with ReLU and max-pooling; d = 84, no BatchNorm.

    Images smaller than 32×32 are padded with zeros, as LeCun et al. did with their 28×28 digits.
    """

    def features(self, shape: Shape) -> tuple[nn.Module, int]:
        """Return two convolutions without padding, each pooled, and two hidden layers."""
        channels, *sizes = shape
        down, right = (max(LENET_SIZE - size, 0) for size in sizes)
        rows, columns = (((max(LENET_SIZE, size) - 4) // 2 - 4) // 2 for size in sizes)
        layers = nn.Sequential(
            nn.ZeroPad2d((right // 2, right - right // 2, down // 2, down - down // 2)),
            nn.Conv2d(channels, 6, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(16 * rows * columns, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
        )
        return layers, 84


MOBILENET_STAGES = (
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

MOBILENET_FIRST, MOBILENET_LAST = 32, 1280


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
        before = self.channels(MOBILENET_FIRST)
        layers = [*self.convolution(shape[0], before, stride=self.stem), self._relu()]
        for expansion, published, blocks, stride in MOBILENET_STAGES:
            after = self.channels(published)
            for block in range(min(blocks, self.blocks or blocks)):
                layers.append(self._block(before, after, expansion, 1 if block else stride))
                before = after
        layers += [*self.convolution(before, MOBILENET_LAST, 1), self._relu(), *pool()]
        return nn.Sequential(*layers), MOBILENET_LAST

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


class _ResNet(ScalableModel):
    """Stages of basic blocks of two 3×3 convolutions; all but the first stage halve height and width."""

    widths: ClassVar[tuple[int, ...]]
    blocks: ClassVar[int]

    def features(self, shape: Shape) -> tuple[nn.Module, int]:
        """Return the layers."""
        widths = [self.channels(width) for width in self.widths]
        before = widths[0]
        layers = [*self.convolution(shape[0], before, stride=self.stem), nn.ReLU()]
        for stage, after in enumerate(widths):
            for block in range(self.blocks):
                stride = 2 if stage and not block else 1
                layers += [self._block(before, after, stride), nn.ReLU()]
                before = after
        return nn.Sequential(*layers, *pool()), before

    def _block(self, before: int, after: int, stride: int) -> nn.Module:
        path = nn.Sequential(
            *self.convolution(before, after, stride=stride),
            nn.ReLU(),
            *self.convolution(after, after),
        )
        same = before == after and stride == 1
        return Residual(path, nn.Identity() if same else self._shortcut(before, after))

    def _shortcut(self, before: int, after: int) -> nn.Module:
        raise NotImplementedError


class ResNet18(_ResNet):
    """ResNet18 (He et al., 2016) with the stem for 32×32 images; d = 512 times the width.

    The stem is one 3×3 convolution without pooling; where the width changes, the shortcut is a 1×1
    convolution (option B).
    """

    widths = (64, 128, 256, 512)
    blocks = 2

    def _shortcut(self, before: int, after: int) -> nn.Module:
        return self.convolution(before, after, 1, stride=2)


class _CifarResNet(_ResNet):
    """The networks of He et al. (2016) for CIFAR-10 (section 4.2); shortcuts have no parameters."""

    widths = (16, 32, 64)

    def features(self, shape: Shape) -> tuple[nn.Module, int]:
        """Return the layers, initialised as in He et al. (2015)."""
        layers, width = super().features(shape)
        for layer in layers.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight)
        return layers, width

    def _shortcut(self, before: int, after: int) -> nn.Module:
        return PaddedShortcut(after - before)


class ResNet20(_CifarResNet):
    """ResNet20 for CIFAR (He et al., 2016), with shortcuts of option A; d = 64 times the width."""

    blocks = 3


class ResNet32(_CifarResNet):
    """ResNet32 for CIFAR (He et al., 2016), with shortcuts of option A; d = 64 times the width."""

    blocks = 5


class PaddedShortcut(nn.Module):
    """The shortcut of option A: every second pixel, and zeros for the new channels."""

    def __init__(self, new: int) -> None:
        super().__init__()
        self.new = new

    def forward(self, x: Tensor) -> Tensor:
        """Halve height and width (rounded up, as the strided convolution does) and add the channels."""
        return pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.new // 2, self.new - self.new // 2))


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
