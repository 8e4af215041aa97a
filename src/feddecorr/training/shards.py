"""What clients hold, and in which order they take their images in local training."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, repeat

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from feddecorr.config.training import Training
from feddecorr.core.randomness import generator
from feddecorr.data.augmentation import augment
from feddecorr.data.dataset import Images
from feddecorr.partition import Parts
from feddecorr.training.task import Task


@dataclass(frozen=True)
class Shard:
    """What one client holds: its own images and labels."""

    client: int
    images: Images

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True)
class Shards:
    """The shards of all clients on this machine: images together, and which are whose.

    Client k holds the images `order[bounds[k]:bounds[k + 1]]`. A shard is copied out when its client plays.
    """

    images: Images
    order: Tensor
    bounds: Tensor

    @classmethod
    def of(cls, images: Images, parts: Parts) -> Shards:
        """Put the parts one after another."""
        return cls(images, torch.from_numpy(parts.order), torch.from_numpy(parts.bounds))

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, client: int) -> Shard:
        mine = self.order[self.bounds[client] : self.bounds[client + 1]]
        pixels = self.images.pixels.index_select(0, mine)
        return Shard(client, Images(pixels, self.images.labels.index_select(0, mine)))

    @property
    def parts(self) -> Parts:
        """Everybody's examples, by their places in the images."""
        return Parts(self.order.numpy(), self.bounds.numpy())

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Everybody's number of examples."""
        return self.bounds.diff().numpy()

    def digest(self) -> str:
        """Return the sha256 of the assignment of examples to clients."""
        digest = hashlib.sha256(self.bounds.numpy().tobytes())
        digest.update(self.order.numpy().tobytes())
        return digest.hexdigest()

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        return sum(each.nbytes for each in (self.images.pixels, self.images.labels, self.order, self.bounds))

    def share(self) -> None:
        """Move to shared memory, where worker processes see everything without a copy."""
        self.images.share()
        self.order.share_memory_()
        self.bounds.share_memory_()


LabelledBatch = tuple[Tensor, Tensor, Tensor | None]
"""Images, labels and, where images come as they are, their places among the client's own."""

AT_ONCE = 1 << 16
"""So many numbers are made of pixels at once, at least: small batches cost more in calls than in work."""

LINE = 16
"""Numbers in a line of the processor's cache, where a product's operands begin: its last bits may depend on that."""


@cache
def batch_sizes(count: int, size: int) -> tuple[int, ...]:
    """Return how many images the batches of one pass have.

    A last batch of one, of which BatchNorm knows no variance, joins the one before it.
    """
    whole, rest = divmod(count, size)
    if rest == 1 and whole:
        return *[size] * (whole - 1), size + 1
    return *[size] * whole, *[rest] * bool(rest)


def batch_count(count: int, size: int) -> int:
    """Return how many batches one pass has, however many images are claimed."""
    whole, rest = divmod(count, size)
    return max(1, whole + (rest > 1))


def epoch_sizes(training: Training, count: int) -> list[tuple[int, ...]]:
    """Return the sizes of the batches of each local epoch of a client with that many images."""
    whole = batch_sizes(count, training.batch)
    return [whole[:steps] for steps in training.steps_per_epoch(len(whole))]


class Visits:
    """In which order a client takes its images in a round, and by which chance they are changed."""

    def __init__(self, task: Task, number: int, shard: Shard) -> None:
        self.shard = shard
        self.sizes = epoch_sizes(task.experiment.training, len(shard))
        self._task, self._place = task, (number, shard.client)

    @property
    def steps(self) -> int:
        """The number of local steps."""
        return sum(map(len, self.sizes))

    def order(self, epoch: int) -> Tensor:
        """Return the places of the images that an epoch takes, one batch after another."""
        stream = generator(self._task.experiment.seed, "batches", *self._place, epoch)
        return torch.randperm(len(self.shard), generator=stream)[: sum(self.sizes[epoch])]

    def chance(self, epoch: int) -> torch.Generator:
        """Return the generator of the epoch's random changes."""
        return generator(self._task.experiment.seed, "augmentation", *self._place, epoch)

    def batches(self) -> Iterator[LabelledBatch]:
        """Yield the batches of all local epochs, as the network takes them, with labels."""
        for epoch in range(len(self.sizes)):
            yield from self._batches(epoch)

    def _batches(self, epoch: int) -> Iterator[LabelledBatch]:
        images, order, sizes = self.shard.images, self.order(epoch), self.sizes[epoch]
        device, changes = self._task.device, self._task.experiment.data.augment
        chance = self.chance(epoch) if changes else None
        for several in _portions(sizes, 1 if changes else _batches_at_once(images, sizes)):
            taken, order = order[: sum(several)], order[sum(several) :]
            pixels = images.pixels.index_select(0, taken)
            if chance is not None:
                pixels = augment(pixels, changes, chance)
            x = self._task.normalize(pixels.to(device))
            y = images.labels.index_select(0, taken).to(device)
            places = taken.split(several) if chance is None else repeat(None, len(several))
            yield from zip(x.split(several), y.split(several), places, strict=True)


def _batches_at_once(images: Images, sizes: tuple[int, ...]) -> int:
    numbers = images.pixels[0].numel()
    return max(1, AT_ONCE // (numbers * sizes[0])) if numbers % LINE == 0 else 1


def _portions(sizes: tuple[int, ...], count: int) -> Iterator[list[int]]:
    ends = [*range(0, len(sizes), count), len(sizes)]
    return (list(sizes[start:stop]) for start, stop in pairwise(ends))
