"""Labelled images in memory, as every data set gives them and every client takes them."""

from __future__ import annotations

import hashlib
import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

import torch
from pydantic import BeforeValidator, Field, PositiveInt, field_validator
from torch import Tensor

from feddecorr.core.checks import shown
from feddecorr.core.lists import read_list
from feddecorr.core.randomness import frozen_stream
from feddecorr.core.registry import Config
from feddecorr.data.balanced import balanced_part
from feddecorr.errors import UserError


@dataclass(frozen=True)
class Images:
    """`pixels` of shape (n, height, width, channels) in uint8, and `labels` of shape (n,) in int64.

    Features that are no pixels are float32, of height and width 1, with a channel for each.
    Channels come last in memory, so that a batch is channels-last without being moved.
    """

    pixels: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return self.labels.shape[0]  # quicker than len(…), and asked for often

    def split(self, size: int) -> list[Images]:
        """Cut into parts of that size and a last one."""
        return list(map(Images, self.pixels.split(size), self.labels.split(size)))

    def share(self) -> None:
        """Move to shared memory, where worker processes see the images without a copy."""
        self.pixels.share_memory_()
        self.labels.share_memory_()


@dataclass(frozen=True)
class Dataset:
    """Training and test images, with the mean and standard deviation of each channel (in pixel units).

    The note says what a reader of results has to know about the data, such as that they are only a part.
    `sha256` is the digest of all pixels and labels of the set, also where only some of them were taken.
    """

    train: Images
    test: Images
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    sha256: str
    note: str = ""

    @classmethod
    def of(cls, train: Images, test: Images, classes: tuple[str, ...]) -> Dataset:
        """Put a data set together; mean and standard deviation are those of the training images."""
        mean, std = _constants(train.pixels)
        return cls(train, test, classes, mean, std, content_digest(train, test))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        height, width, channels = self.train.pixels.shape[1:]
        return channels, height, width

    def normalize(self, pixels: Tensor) -> Tensor:
        """Turn (n, h, w, c) pixels into standardized (n, c, h, w) floats, channels-last in memory."""
        return self._standardize(pixels)

    @cached_property
    def _standardize(self) -> Standardize:
        return Standardize(self.shape, self.mean, self.std)


def _constants(pixels: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation of each channel: exact of pixels, in float64 of features."""
    if not pixels.is_floating_point():
        sums = PixelSums.of(pixels)
        return sums.mean, sums.std
    features = pixels.double().flatten(0, 2)
    deviations = features.std(0, correction=0).tolist()
    return tuple(features.mean(0).tolist()), tuple(deviation or 1.0 for deviation in deviations)


def content_digest(train: Images, test: Images) -> str:
    """Return the sha256 of all pixels and labels."""
    digest = hashlib.sha256()
    for images in (train, test):
        for tensor in (images.pixels, images.labels):
            digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


@dataclass(frozen=True)
class Standardize:
    """Turns pixels into floats of mean 0 and spread 1, by constants for each channel (in pixel units)."""

    shape: tuple[int, int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, pixels: Tensor) -> Tensor:
        """Turn (n, h, w, c) pixels into (n, c, h, w) floats, channels-last in memory."""
        factor, shift = self._whole_images
        floats = pixels.to(factor.dtype, copy=True)  # a pass of its own: products of two types take twice as long
        floats.mul_(factor.to(pixels.device)).add_(shift.to(pixels.device))
        return floats.permute(0, 3, 1, 2)

    @cached_property
    def _whole_images(self) -> tuple[Tensor, Tensor]:
        """What standardizes, written out for every pixel: several times as fast to apply as three numbers."""
        channels, height, width = self.shape
        factor = 1 / torch.tensor(self.std)
        shift = -torch.tensor(self.mean) * factor
        size = height, width, channels
        return factor.expand(size).contiguous(), shift.expand(size).contiguous()


@dataclass(frozen=True)
class PixelSums:
    """Exact sums over the pixels of each channel: parts add up to the whole, whoever holds them.

    Sums that no pixels from 0 to 255 have are refused: constants that were made of them would be no numbers.
    """

    count: int
    sums: tuple[int, ...]
    squares: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.count < 1 or len(self.sums) != len(self.squares):
            raise UserError(f"sums over {self.count} pixels of {len(self.sums)} and {len(self.squares)} channels")
        for total, squares in zip(self.sums, self.squares, strict=True):
            possible = 0 <= total <= squares <= 255 * total <= 255**2 * self.count  # as of each pixel, and so of all
            if not possible or total**2 > self.count * squares:  # Cauchy and Schwarz: no variance is negative
                raise UserError(f"no {self.count} pixels have the sums {shown(total)} and {shown(squares)}")

    @classmethod
    def of(cls, pixels: Tensor) -> PixelSums:
        """Count the values of each channel."""
        values = torch.arange(256)
        found = [torch.bincount(channel.flatten(), minlength=256) for channel in pixels.unbind(-1)]
        return cls(
            pixels[..., 0].numel(),
            tuple(int(counts @ values) for counts in found),
            tuple(int(counts @ values.square()) for counts in found),
        )

    def __add__(self, other: PixelSums) -> PixelSums:
        return PixelSums(
            self.count + other.count,
            tuple(map(operator.add, self.sums, other.sums)),
            tuple(map(operator.add, self.squares, other.squares)),
        )

    @property
    def mean(self) -> tuple[float, ...]:
        """The mean of each channel."""
        return tuple(total / self.count for total in self.sums)

    @property
    def std(self) -> tuple[float, ...]:
        """The standard deviation of each channel; 1 where all pixels are the same."""
        variances = (
            (self.count * squares - total**2) / self.count**2
            for total, squares in zip(self.sums, self.squares, strict=True)
        )
        return tuple(math.sqrt(variance) or 1.0 for variance in variances)


def split_off_test(labels: Tensor) -> Tensor:
    """Mark every fifth image of each class, for sets that come without test images."""
    chosen = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique():
        chosen[(labels == label).nonzero()[4::5]] = True
    return chosen


Change = Literal["crop", "flip", "autoaugment"]


class Data(Config):
    """A data set that can be loaded."""

    pins: ClassVar[Mapping[str, str]] = {"path": "sha256"}
    images: ClassVar[bool] = True
    """Whether networks for images can learn it; tables of features are for `mlp`."""

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
        self._check(dataset)
        return replace(
            dataset,
            train=self._take(dataset.train, self.train, "train"),
            test=self._take(dataset.test, self.test, "test"),
        )

    def pinned(self, sha256: str | None = None) -> Self:  # noqa: ARG002 - a public set is known by its name
        """Return the same, told apart from any other images by their digest, where a name does not do that."""
        return self

    def _check(self, dataset: Dataset) -> None:
        """Refuse images other than those that were pinned."""

    def _take(self, images: Images, count: int | None, name: str) -> Images:
        if count is None or count == len(images):
            return images
        if count > len(images):
            raise UserError(f"data.{name}={count} is more than there is: at most {len(images)} for this data set")
        stream = frozen_stream(self.seed, f"part/{name}")
        chosen = torch.from_numpy(balanced_part(images.labels.numpy(), count, stream))
        return Images(images.pixels[chosen], images.labels[chosen])


class Own(Data):
    """Data of the user's own, at a path. A run keeps their digest, and is never gone on with on other data."""

    argument: ClassVar[str | None] = "path"

    path: Path = Field(description="where the data are")
    sha256: str = Field("", description="digest of all pixels and labels; filled in when a run begins")

    @field_validator("path")
    @classmethod
    def _resolve(cls, path: Path) -> Path:
        return path.expanduser().absolute()  # a run may be resumed from elsewhere

    def pinned(self, sha256: str | None = None) -> Self:
        """Return the same with the digest; unless it is given, of what lies at the path now."""
        return self if self.sha256 else self.model_copy(update={"sha256": sha256 or self.read().sha256})

    def _check(self, dataset: Dataset) -> None:
        if self.sha256 not in ("", dataset.sha256):
            raise UserError(
                f"{self.path} has changed: its pixels and labels have sha256 {dataset.sha256}, no longer {self.sha256}"
            )
