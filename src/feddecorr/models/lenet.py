"""LeNet-5."""

from __future__ import annotations

from torch import nn

from feddecorr.models.model import Model, Shape

SIZE = 32


class LeNet(Model):
    """LeNet-5 (LeCun et al., 1998) with ReLU and max-pooling; d = 84, no BatchNorm.

    Images smaller than 32×32 are padded with zeros, as LeCun et al. did with their 28×28 digits.
    """

    def features(self, shape: Shape) -> tuple[nn.Module, int]:
        """Return two convolutions without padding, each pooled, and two hidden layers."""
        channels, *sizes = shape
        down, right = (max(SIZE - size, 0) for size in sizes)
        rows, columns = (((max(SIZE, size) - 4) // 2 - 4) // 2 for size in sizes)
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
