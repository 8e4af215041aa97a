"""The clients' data, and the order of their images in local training."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise, repeat

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from feddecorr.config.training import Training
from feddecorr.core import devices
from feddecorr.core.randomness import generator
from feddecorr.data.augmentation import augment_batches
from feddecorr.data.dataset import Images
from feddecorr.objective.terms import Places
from feddecorr.partition.split import Parts
from feddecorr.training.task import Task


@dataclass(frozen=True)
class Shard:
    """What one client holds: its own images and labels."""

    client: int
    images: Images
    seen: Tensor | None = None
    """Counts the images of its local steps, for whoever follows a round."""

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True)
class Shards:
    """The shards of all clients on this machine: all images, and which client has which.

    Client k holds the images `order[bounds[k]:bounds[k + 1]]`. A shard is copied out when its client plays.
    """

    images: Images
    order: Tensor
    bounds: Tensor
    seen: Tensor | None = None
    """How many images each client has taken in local steps since the run began."""

    @classmethod
    def of(cls, images: Images, parts: Parts) -> Shards:
        """Concatenate the parts."""
        bounds = torch.from_numpy(parts.bounds)
        return cls(images, torch.from_numpy(parts.order), bounds, torch.zeros(len(bounds) - 1, dtype=torch.int64))

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, client: int) -> Shard:
        mine = self.order[self.bounds[client] : self.bounds[client + 1]]
        seen = None if self.seen is None else self.seen[client]
        return Shard(client, self.images.take(mine.to(self.images.pixels.device)), seen)

    @property
    def parts(self) -> Parts:
        """Each client's examples, by their places in the images."""
        return Parts(self.order.numpy(), self.bounds.numpy())

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Each client's number of examples."""
        return self.bounds.diff().numpy()

    def digest(self) -> str:
        """Return the sha256 of the assignment of examples to clients."""
        digest = hashlib.sha256(self.bounds.numpy().tobytes())
        digest.update(self.order.numpy().tobytes())
        return digest.hexdigest()

    @property
    def nbytes(self) -> int:
        """Their size in memory."""
        return self.images.nbytes + self.order.nbytes + self.bounds.nbytes

    def near(self, device: str) -> Shards:
        """Return them with the images in the memory of the device, if they fit; else each client's come in turn."""
        return replace(self, images=self.images.near(device))

    def share(self) -> None:
        """Move to shared memory, where worker processes see everything without a copy."""
        self.images.share()
        self.order.share_memory_()
        self.bounds.share_memory_()
        if self.seen is not None:
            self.seen.share_memory_()


LabelledBatch = tuple[Tensor, Tensor, Places | None]
"""Images, labels and, where images come as they are, their places among the client's own."""

AT_ONCE = 1 << 16
"""At least this many numbers are made of pixels at once: small batches cost more in calls than in work."""

LOOK = 500
"""Images in a forward pass that nothing is learned from."""

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
    """The order of a client's images in a round, and the randomness of their augmentation."""

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
            for batch in self._batches(epoch):
                yield batch
                self.count(len(batch[1]))

    def unchanged(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield all images once, in their own order and without augmentation, with labels."""
        images = self.shard.images
        for pixels, y in zip(images.pixels.split(LOOK), images.labels.split(LOOK), strict=True):
            yield self._task.normalize(pixels), y

    def pixels(self) -> Iterator[Tensor]:
        """Yield the pixels of the batches of all local epochs, as chance changes them."""
        for epoch in range(len(self.sizes)):
            for sizes, pixels, _ in self._portions(epoch):
                yield from pixels.split(sizes)

    def count(self, images: int) -> None:
        """Count the images of a step that is done."""
        if self.shard.seen is not None:
            self.shard.seen.add_(images)

    def _batches(self, epoch: int) -> Iterator[LabelledBatch]:
        for sizes, pixels, places in self._portions(epoch):
            y = self.shard.images.labels.index_select(0, places.device)
            if self._task.experiment.data.augment:
                known: Iterable[Places | None] = repeat(None, len(sizes))
            else:
                known = map(Places, places.host.split(sizes), places.device.split(sizes))
            yield from zip(self._inputs(pixels, sizes), y.split(sizes), known, strict=True)

    def _portions(self, epoch: int) -> Iterator[tuple[list[int], Tensor, Places]]:
        """Yield the sizes of a few batches, their pixels and where those come from."""
        images, changes = self.shard.images, self._task.experiment.data.augment
        order, sizes = self.order(epoch), self.sizes[epoch]
        chance = self.chance(epoch) if changes else None
        for several in _cut(sizes, _batches_at_once(images, sizes, augmented=bool(changes))):
            host, order = order[: sum(several)], order[sum(several) :]
            places = Places(host, host.to(images.pixels.device))
            pixels = images.pixels.index_select(0, places.device)
            if chance is not None:
                pixels = augment_batches(pixels, several, changes, chance)
            yield several, pixels, places

    def _inputs(self, pixels: Tensor, sizes: list[int]) -> Iterable[Tensor]:
        """Return the batches as the network takes them: on the host in one go, elsewhere as bytes until then."""
        if devices.on_host(pixels.device):
            x: Iterable[Tensor] = self._task.normalize(pixels).split(sizes)
            return x
        return map(self._task.normalize, pixels.split(sizes))


def _batches_at_once(images: Images, sizes: tuple[int, ...], *, augmented: bool) -> int:
    """Return how many batches are made in one go: on another device than the host the whole epoch, as bytes.

    Nothing crosses to such a device in a step, then.
    """
    if not devices.on_host(images.pixels.device):
        return len(sizes)
    numbers = images.pixels[0].numel()
    return max(1, AT_ONCE // (numbers * sizes[0])) if numbers % LINE == 0 and not augmented else 1


def _cut(sizes: tuple[int, ...], count: int) -> Iterator[list[int]]:
    ends = [*range(0, len(sizes), count), len(sizes)]
    return (list(sizes[start:stop]) for start, stop in pairwise(ends))
