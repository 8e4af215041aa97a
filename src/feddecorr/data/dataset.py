"""Labelled images in memory, as every data set gives them and every client takes them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from feddecorr.kinds import Kind


@dataclass(frozen=True)
class Images:
    """`pixels` of shape (n, height, width, channels) in uint8, and `labels` of shape (n,) in int64.

    Channels come last in memory, so that a batch is channels-last without being moved.
    """

    pixels: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Dataset:
    """Training and test images, with the mean and standard deviation of each channel (in pixel units)."""

    train: Images
    test: Images
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        height, width, channels = self.train.pixels.shape[1:]
        return channels, height, width

    def normalize(self, pixels: Tensor) -> Tensor:
        """Turn (n, h, w, c) pixels into standardized (n, c, h, w) floats, channels-last in memory."""
        floats = pixels.to(torch.float32)
        floats.sub_(floats.new_tensor(self.mean)).div_(floats.new_tensor(self.std))
        return floats.permute(0, 3, 1, 2)

    def share(self) -> Dataset:
        """Move the images to shared memory, where worker processes see them without a copy."""
        for images in (self.train, self.test):
            images.pixels.share_memory_()
            images.labels.share_memory_()
        return self


def channel_statistics(pixels: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation of each channel, exactly (by counting values)."""
    values = torch.arange(256, dtype=torch.float64)
    means, stds = [], []
    for channel in pixels.unbind(-1):
        share = torch.bincount(channel.flatten(), minlength=256).double() / channel.numel()
        mean = float(share @ values)
        means.append(mean)
        stds.append(float((share @ (values - mean).square()).sqrt()) or 1.0)
    return tuple(means), tuple(stds)


class Data(Kind):
    """A data set that can be loaded."""

    def load(self) -> Dataset:
        """Return the images; no randomness but what the options name."""
        raise NotImplementedError
