"""Labelled images in memory, as every data set gives them and every client takes them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Literal

import torch
from pydantic import BeforeValidator, Field, PositiveInt
from torch import Tensor

from feddecorr.data.balanced import balanced_part
from feddecorr.errors import UserError
from feddecorr.randomness import frozen_stream
from feddecorr.settings.kinds import Kind
from feddecorr.settings.words import read_list


@dataclass(frozen=True)
class Images:
    """`pixels` of shape (n, height, width, channels) in uint8, and `labels` of shape (n,) in int64.

    Channels come last in memory, so that a batch is channels-last without being moved.
    """

    pixels: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def share(self) -> None:
        """Move to shared memory, where worker processes see the images without a copy."""
        self.pixels.share_memory_()
        self.labels.share_memory_()


@dataclass(frozen=True)
class Dataset:
    """Training and test images, with the mean and standard deviation of each channel (in pixel units).

    The note says what a reader of results has to know about the data, such as that they are only a part.
    """

    train: Images
    test: Images
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    note: str = ""

    @classmethod
    def of(cls, train: Images, test: Images, classes: tuple[str, ...]) -> Dataset:
        """Put a data set together; mean and standard deviation are those of the training images."""
        return cls(train, test, classes, *channel_statistics(train.pixels))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        height, width, channels = self.train.pixels.shape[1:]
        return channels, height, width

    def normalize(self, pixels: Tensor) -> Tensor:
        """Turn (n, h, w, c) pixels into standardized (n, c, h, w) floats, channels-last in memory."""
        factor, shift = self._whole_images
        floats = torch.mul(pixels, factor.to(pixels.device)).add_(shift.to(pixels.device))
        return floats.permute(0, 3, 1, 2)

    @cached_property
    def _whole_images(self) -> tuple[Tensor, Tensor]:
        """What standardizes, written out for every pixel: several times as fast to apply as three numbers."""
        channels, height, width = self.shape
        factor = 1 / torch.tensor(self.std)
        shift = -torch.tensor(self.mean) * factor
        size = height, width, channels
        return factor.expand(size).contiguous(), shift.expand(size).contiguous()

    def share(self) -> Dataset:
        """Let worker processes see the images without a copy."""
        self.train.share()
        self.test.share()
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


def split_off_test(labels: Tensor) -> Tensor:
    """Mark every fifth image of each class, for sets that come without test images."""
    chosen = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique():
        chosen[(labels == label).nonzero()[4::5]] = True
    return chosen


Change = Literal["crop", "flip", "autoaugment"]


class Data(Kind):
    """A data set that can be loaded."""

    train: PositiveInt | None = Field(None, description="training images, drawn evenly from all classes; else all")
    test: PositiveInt | None = Field(None, description="test images, drawn evenly from all classes; else all")
    seed: int = Field(0, description="of the draw of train and test; the run's seed does not change it")
    augment: Annotated[tuple[Change, ...], BeforeValidator(read_list)] = Field(
        (), description="random changes of training images, in this order: none or any of crop,flip,autoaugment"
    )

    def read(self) -> Dataset:
        """Return all images; no randomness but what the options name."""
        raise NotImplementedError

    def verify(self) -> tuple[Dataset, list[str]]:
        """Return all images, and in which ways they are not what they should be."""
        return self.read(), []

    def load(self) -> Dataset:
        """Return the images that the options ask for."""
        dataset = self.read()
        return replace(
            dataset,
            train=self._take(dataset.train, self.train, "train"),
            test=self._take(dataset.test, self.test, "test"),
        )

    def _take(self, images: Images, count: int | None, name: str) -> Images:
        if count is None or count == len(images):
            return images
        if count > len(images):
            raise UserError(f"data.{name}={count} is more than there is: at most {len(images)} for this data set")
        stream = frozen_stream(self.seed, f"part/{name}")
        chosen = torch.from_numpy(balanced_part(images.labels.numpy(), count, stream))
        return Images(images.pixels[chosen], images.labels[chosen])
