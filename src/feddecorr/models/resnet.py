"""Residual networks for small images."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn
from torch.nn.functional import pad

from feddecorr.models.model import Residual, ScalableModel, Shape, pool


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
        return Residual(path, nn.Identity() if before == after else self._shortcut(before, after))

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
