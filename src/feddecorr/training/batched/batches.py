"""Which images several clients take in which step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain

import torch
from torch import Tensor
from torch.nn.functional import pad

from feddecorr.data.augmentation import augment
from feddecorr.training.batches import Visits
from feddecorr.training.task import Task


@dataclass(frozen=True)
class StackedStep:
    """One step of the first clients: how many images each takes, and which, by their places in the client's shard.

    `places` and labels `y` have the shape (clients, n); the batch of a client that takes fewer than n is padded.
    """

    number: int
    sizes: Sequence[int]
    places: Tensor
    y: Tensor

    @cached_property
    def cohorts(self) -> dict[int, list[int]]:
        """The clients, by the sizes of their batches."""
        cohorts: dict[int, list[int]] = {}
        for client, size in enumerate(self.sizes):
            cohorts.setdefault(size, []).append(client)
        return cohorts


class StackedBatches:
    """The steps of several clients, who begin together; those with the most steps come first.

    What pads a batch has a place after all images of any of them.
    """

    def __init__(self, task: Task, visits: Sequence[Visits]) -> None:
        self._task, self._visits = task, visits
        self._device = task.device
        self._pixels = torch.cat([each.shard.images.pixels for each in visits])
        self.counts = [len(each.shard) for each in visits]
        self._starts = torch.tensor([0, *accumulate(self.counts[:-1])])
        self._sizes = [tuple(chain.from_iterable(each.sizes)) for each in visits]
        self._places = _table(visits, self._sizes, padding=max(self.counts))
        labels = torch.cat([each.shard.images.labels for each in visits])
        self._labels = labels[self._everywhere(self._places)].to(self._device)
        self._chances: dict[int, tuple[int, torch.Generator]] = {}

    def __iter__(self) -> Iterator[StackedStep]:
        for number in range(self._places.shape[1]):
            sizes = [each[number] for each in self._sizes if len(each) > number]
            taken = slice(len(sizes)), number, slice(max(sizes))
            yield StackedStep(number, sizes, self._places[taken], self._labels[taken])

    def rows(self) -> Tensor:
        """Return all images, one client's after another's, one in each row."""
        return self._task.normalize(self._pixels.to(self._device)).flatten(1)

    def images(self, step: StackedStep) -> Tensor:
        """Return the images of a step as the network takes them, of shape (clients, n, channels, height, width)."""
        if self._task.experiment.data.augment:
            pixels = torch.cat([self._changed(client, step) for client in range(len(step.sizes))])
        else:
            pixels = self._pixels.index_select(0, self._everywhere(step.places).flatten())
        images = self._task.normalize(pixels.to(self._device))
        return images.view(*step.places.shape, *images.shape[1:])

    def _changed(self, client: int, step: StackedStep) -> Tensor:
        size, widest = step.sizes[client], step.places.shape[1]
        pixels = self._visits[client].shard.images.pixels.index_select(0, step.places[client, :size])
        changed = augment(pixels, self._task.experiment.data.augment, self._chance(client, step.number))
        return pad(changed, (0, 0) * 3 + (0, widest - size))

    def _chance(self, client: int, number: int) -> torch.Generator:
        """Return the generator of the epoch that a client's step belongs to."""
        ends = accumulate(map(len, self._visits[client].sizes))
        epoch = next(epoch for epoch, end in enumerate(ends) if number < end)
        if self._chances.get(client, (-1,))[0] != epoch:
            self._chances[client] = epoch, self._visits[client].chance(epoch)
        return self._chances[client][1]

    def _everywhere(self, places: Tensor) -> Tensor:
        """Return places in a client's shard as places among the images of all; padding is somebody's image."""
        starts = self._starts[: len(places)].view(-1, *[1] * (places.ndim - 1))
        return (places + starts).clamp_(max=len(self._pixels) - 1)


def _table(visits: Sequence[Visits], sizes: Sequence[tuple[int, ...]], *, padding: int) -> Tensor:
    """Return everybody's places of all steps, of shape (clients, steps, n)."""
    widest, longest = max(map(max, sizes)), len(sizes[0])
    table = torch.full((len(visits), longest, widest), padding)
    masks: dict[tuple[int, ...], Tensor] = {}
    for mine, each, its in zip(table, visits, sizes, strict=True):
        taken = torch.cat([each.order(epoch) for epoch in range(len(each.sizes))])
        if its not in masks:
            masks[its] = torch.arange(widest) < torch.tensor(its).unsqueeze(1)
        mine[: len(its)].masked_scatter_(masks[its], taken)
    return table
