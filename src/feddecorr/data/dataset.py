"""Labelled images in memory, and the base classes of the data sets that load them."""

from __future__ import annotations

import hashlib
import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, PositiveInt, field_validator
from torch import Tensor

from feddecorr.core import devices
from feddecorr.core.checks import shown
from feddecorr.core.limits import check_class_names
from feddecorr.core.randomness import frozen_stream
from feddecorr.core.registry import Config
from feddecorr.core.text import is_text, read_list
from feddecorr.errors import UserError


class Outline(NamedTuple):
    """What a data set is like: how many images, of which shape (channels, height, width), in how many classes."""

    train: int
    test: int
    shape: tuple[int, int, int]
    classes: int
    dtype: torch.dtype = torch.uint8

    @property
    def nbytes(self) -> int:
        """How much memory the images and their labels take."""
        return (self.train + self.test) * (math.prod(self.shape) * self.dtype.itemsize + torch.int64.itemsize)


@dataclass(frozen=True)
class Images:
    """`pixels` of shape (n, height, width, channels) in uint8, and `labels` of shape (n,) in int64.

    Features of a table are float32 images of height and width 1, with a channel for each.
    Channels come last in memory, so a batch is channels-last without a copy.
    """

    pixels: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return self.labels.shape[0]  # faster than len(…), and called often

    def split(self, size: int) -> list[Images]:
        """Cut into parts of that size; the last may be smaller."""
        return list(map(Images, self.pixels.split(size), self.labels.split(size)))

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        return self.pixels.nbytes + self.labels.nbytes

    def take(self, places: Tensor) -> Images:
        """Return copies of those at these places."""
        return Images(self.pixels.index_select(0, places), self.labels.index_select(0, places))

    def to(self, device: str) -> Images:
        """Return them on a device, pixels as bytes; themselves where they are there."""
        return Images(devices.move(self.pixels, device), devices.move(self.labels, device))

    def near(self, device: str) -> Images:
        """Return them on a device if they fit into half of the memory that is free there; else where they are."""
        room = devices.free_memory(device)
        return self if room is not None and self.nbytes > room / 2 else self.to(device)

    def share(self) -> None:
        """Move to shared memory, where worker processes see the images without a copy."""
        self.pixels.share_memory_()
        self.labels.share_memory_()


@dataclass(frozen=True)
class Dataset:
    """Training and test images, with the mean and standard deviation of each channel (in pixel units).

    `note` says what a reader of results has to know about the data, such as that they are incomplete.
    `sha256` is the digest of all pixels and labels of the set, even where only a part of them is used.
    `owners` is the client of each training example, counted from 0, where the data say it: `partition=given`.
    """

    train: Images
    test: Images
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    sha256: str
    note: str = ""
    owners: Tensor | None = None

    @classmethod
    def of(cls, train: Images, test: Images, classes: tuple[str, ...], owners: Tensor | None = None) -> Dataset:
        """Return a data set with the mean and standard deviation of its training images."""
        check_class_names(classes)
        mean, std = _constants(train.pixels)
        return cls(train, test, classes, mean, std, content_digest(train, test, owners), owners=owners)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        height, width, channels = self.train.pixels.shape[1:]
        return channels, height, width

    @property
    def outline(self) -> Outline:
        """What it is like."""
        return Outline(len(self.train), len(self.test), self.shape, len(self.classes), self.train.pixels.dtype)

    def normalize(self, pixels: Tensor) -> Tensor:
        """Turn (n, h, w, c) pixels into standardized (n, c, h, w) floats, channels-last in memory."""
        return self._standardize(pixels)

    @cached_property
    def _standardize(self) -> Standardize:
        return Standardize(self.shape, self.mean, self.std)


def _constants(pixels: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation of each channel: exact for pixels, in float64 for features."""
    if not pixels.is_floating_point():
        sums = PixelSums.of(pixels)
        return sums.mean, sums.std
    features = pixels.double().flatten(0, 2)
    deviations = features.std(0, correction=0).tolist()
    return tuple(features.mean(0).tolist()), tuple(deviation or 1.0 for deviation in deviations)


def content_digest(train: Images, test: Images, owners: Tensor | None = None) -> str:
    """Return the sha256 of all pixels and labels, and of the owners if there are any."""
    digest = hashlib.sha256()
    for tensor in (train.pixels, train.labels, test.pixels, test.labels, *(() if owners is None else (owners,))):
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


@dataclass(frozen=True)
class Standardize:
    """Turns pixels into floats of mean 0 and standard deviation 1, by constants for each channel (in pixel units)."""

    shape: tuple[int, int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, pixels: Tensor) -> Tensor:
        """Turn (n, h, w, c) pixels into (n, c, h, w) floats, channels-last in memory."""
        if pixels.device not in self._whole_images:
            self._whole_images[pixels.device] = self._make_whole_images(pixels.device)
        factor, shift = self._whole_images[pixels.device]
        floats = pixels.to(factor.dtype, copy=True)  # a separate pass: products of two types take twice as long
        floats.mul_(factor).add_(shift)
        return floats.permute(0, 3, 1, 2)

    @cached_property
    def _whole_images(self) -> dict[torch.device, tuple[Tensor, Tensor]]:
        return {}

    def __reduce__(self) -> tuple[type[Standardize], tuple[Any, ...]]:
        """Pickle the constants alone: another process makes its own tensors."""
        return Standardize, (self.shape, self.mean, self.std)

    def _make_whole_images(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return factor and shift of every pixel of an image: several times faster to apply than three numbers."""
        channels, height, width = self.shape
        factor = 1 / torch.tensor(self.std)
        shift = -torch.tensor(self.mean) * factor
        size = height, width, channels
        return factor.expand(size).contiguous().to(device), shift.expand(size).contiguous().to(device)


@dataclass(frozen=True)
class PixelSums:
    """Exact sums over the pixels of each channel: the sums of parts add up to those of the whole.

    Sums that are impossible for pixels from 0 to 255 are refused: they could give constants that are not numbers.
    """

    count: int
    sums: tuple[int, ...]
    squares: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.count < 1 or len(self.sums) != len(self.squares):
            raise UserError(f"sums over {self.count} pixels of {len(self.sums)} and {len(self.squares)} channels")
        for total, squares in zip(self.sums, self.squares, strict=True):
            possible = 0 <= total <= squares <= 255 * total <= 255**2 * self.count  # true of each pixel, hence of sums
            if not possible or total**2 > self.count * squares:  # Cauchy–Schwarz: no variance is negative
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


def balanced_part(labels: NDArray[np.int64], count: int, stream: np.random.RandomState) -> NDArray[np.int64]:
    """Return `count` sorted indices, as evenly from all classes as they allow.

    A class with too few gives all it has, and the others give more. The remainder comes from classes drawn at
    random, one each; up to that, a larger part from the same stream contains a smaller one.
    """
    members = [stream.permutation(np.flatnonzero(labels == label)) for label in np.unique(labels)]
    sizes = np.array([len(indices) for indices in members])
    quotas = np.zeros_like(sizes)
    while (left := count - quotas.sum()) > 0:
        unfinished = np.flatnonzero(quotas < sizes)
        if left < len(unfinished):
            quotas[stream.permutation(unfinished)[:left]] += 1
        else:
            quotas[unfinished] = np.minimum(sizes, quotas + left // len(unfinished))[unfinished]
    return np.sort(np.concatenate([indices[:quota] for indices, quota in zip(members, quotas, strict=True)]))


def split_off_test(labels: Tensor) -> Tensor:
    """Mark every fifth image of each class, for sets that come without test images."""
    chosen = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique():
        chosen[(labels == label).nonzero()[4::5]] = True
    return chosen


Augmentation = Literal["crop", "flip", "autoaugment"]


class Data(Config):
    """A data set that can be loaded."""

    pins: ClassVar[Mapping[str, str]] = {"path": "sha256"}
    train: PositiveInt | None = Field(
        None, description="number of training images, drawn evenly from all classes; by default all"
    )
    test: PositiveInt | None = Field(
        None, description="number of test images, drawn evenly from all classes; by default all"
    )
    seed: int = Field(0, description="seed of the draw of train and test; the run's seed does not change it")
    augment: Annotated[tuple[Augmentation, ...], BeforeValidator(read_list)] = Field(
        (), description="augmentation of training images, in this order: none or any of crop,flip,autoaugment"
    )

    @property
    def images(self) -> bool:
        """False for tables of features, on which only `mlp` can be trained."""
        return True

    def read(self) -> Dataset:
        """Return all images; any randomness comes from a seed in the options."""
        raise NotImplementedError

    def verify(self) -> tuple[Dataset, list[str]]:
        """Return all images, and what is wrong with them."""
        return self.read(), []

    def load(self) -> Dataset:
        """Return the images that the options ask for."""
        dataset = self.read()
        self._check(dataset)
        train, test = self._chosen(dataset.train, self.train, "train"), self._chosen(dataset.test, self.test, "test")
        return replace(
            dataset,
            train=dataset.train if train is None else dataset.train.take(train),
            test=dataset.test if test is None else dataset.test.take(test),
            owners=dataset.owners if train is None or dataset.owners is None else dataset.owners[train],
        )

    def outline(self) -> Outline:
        """Return what the images are like that `load` returns; public sets need not be on this machine."""
        return self.load().outline

    def pinned(self, sha256: str | None = None) -> Self:  # noqa: ARG002 - a public set is known by its name
        """Return the same data set with its digest recorded, where its name alone does not identify the images."""
        return self

    def _check(self, dataset: Dataset) -> None:
        """Refuse images with another digest than the recorded one."""

    def _chosen(self, images: Images, count: int | None, name: str) -> Tensor | None:
        """Return the places of the images that are drawn; None stands for all."""
        if count is None or count == len(images):
            return None
        if count > len(images):
            raise UserError(f"data.{name}={count} is more than this data set has: at most {len(images)}")
        stream = frozen_stream(self.seed, f"part/{name}")
        return torch.from_numpy(balanced_part(images.labels.numpy(), count, stream))


class UserData(Data):
    """Your own data, at a path. A run records their digest, and never continues on other data."""

    argument: ClassVar[str | None] = "path"

    path: Path = Field(description="path of the data")
    sha256: str = Field("", description="digest of all pixels and labels; filled in when a run begins")

    @field_validator("path")
    @classmethod
    def _resolve(cls, path: Path) -> Path:
        if not is_text(str(path)):
            raise ValueError(f"{str(path)!r}: a path is text in UTF-8")
        return path.expanduser().absolute()  # a run may be resumed from elsewhere

    def pinned(self, sha256: str | None = None) -> Self:
        """Return the same with the digest, by default that of the data at the path now."""
        return self if self.sha256 else self.model_copy(update={"sha256": sha256 or self.read().sha256})

    def _check(self, dataset: Dataset) -> None:
        if self.sha256 not in ("", dataset.sha256):
            raise UserError(
                f"{self.path} has changed: its pixels and labels have sha256 {dataset.sha256}, no longer {self.sha256}"
            )


class OnNodes(Data):
    """The data of a deployed federation: each node has its own, and says where."""

    def read(self) -> Dataset:
        """Refuse: no data are here."""
        raise UserError(
            "data=nodes: the images are with the nodes of a federation, not here ('feddecorr flower app' makes one); "
            "for a run on this machine choose other data ('feddecorr list data')"
        )
