"""The images of several clients, one client's after another's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn.functional import pad

from feddecorr.data.augment.changes import augment
from feddecorr.federation import Task
from feddecorr.local_training.batches import Visits


class Pictures:
    """Images and labels by client and place in the client's shard, as the network takes them."""

    def __init__(self, task: Task, visits: Sequence[Visits]) -> None:
        self._task, self._visits = task, visits
        self._device = task.experiment.training.device
        self._changes = task.experiment.data.augment
        self._pixels = torch.cat([each.shard.images.pixels for each in visits])
        self._labels = torch.cat([each.shard.images.labels for each in visits])
        self.sizes = [len(each.shard) for each in visits]
        self._starts = torch.tensor([0, *accumulate(self.sizes[:-1])])
        self._chances: dict[int, tuple[int, torch.Generator]] = {}

    def rows(self) -> Tensor:
        """Return all images, one in each row."""
        return self._task.normalize(self._pixels.to(self._device)).flatten(1)

    def labels(self, places: Tensor) -> Tensor:
        """Return the labels of images at places of shape (clients, steps, n)."""
        every = (places + self._starts[:, None, None]).clamp_(max=len(self._labels) - 1)
        return self._labels.index_select(0, every.flatten()).view_as(places).to(self._device)

    def __call__(self, places: Tensor, sizes: Sequence[int], number: int) -> Tensor:
        """Return the images of a step at places of shape (clients, n), which are filled up beyond the sizes."""
        every = places + self._starts[: len(places), None]
        if self._changes:
            changed = [self._change(*each, number) for each in zip(range(len(sizes)), every, sizes, strict=True)]
            pixels = torch.cat(changed)
        else:
            pixels = self._pixels.index_select(0, every.flatten())
        images = self._task.normalize(pixels.to(self._device))
        return images.view(*places.shape, *images.shape[1:])

    def _change(self, client: int, places: Tensor, size: int, number: int) -> Tensor:
        pixels = self._pixels.index_select(0, places[:size])
        changed = augment(pixels, self._changes, self._chance(client, number))
        return pad(changed, (0, 0) * 3 + (0, len(places) - size))

    def _chance(self, client: int, number: int) -> torch.Generator:
        """Return the generator of the epoch that a client's step belongs to."""
        ends = accumulate(map(len, self._visits[client].sizes))
        epoch = next(epoch for epoch, end in enumerate(ends) if number < end)
        if self._chances.get(client, (-1,))[0] != epoch:
            self._chances[client] = epoch, self._visits[client].chance(epoch)
        return self._chances[client][1]
