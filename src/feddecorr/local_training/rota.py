"""Who of several clients takes which of its images in which step, as one table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from feddecorr.local_training.batches import Visits


@dataclass(frozen=True)
class Step:
    """One step of the first clients: how many images each of them takes."""

    number: int
    sizes: Sequence[int]

    @property
    def shape(self) -> tuple[int, int]:
        """The number of clients, and the most images that one of them takes."""
        return len(self.sizes), max(self.sizes)


class Rota:
    """The steps of several clients, who begin together; those with the most steps come first.

    `places` has the shape (clients, steps, n) and tells each image by its place in the client's shard. Where a
    client takes fewer images than another, or none, its places are filled up.
    """

    def __init__(self, visits: Sequence[Visits], filling: int) -> None:
        self._sizes = [tuple(chain.from_iterable(each.sizes)) for each in visits]
        widest, longest = max(map(max, self._sizes)), len(self._sizes[0])
        self.places = torch.full((len(visits), longest, widest), filling)
        masks: dict[tuple[int, ...], Tensor] = {}
        for mine, each, sizes in zip(self.places, visits, self._sizes, strict=True):
            taken = torch.cat([each.order(epoch) for epoch in range(len(each.sizes))])
            if sizes not in masks:
                masks[sizes] = torch.arange(widest) < torch.tensor(sizes).unsqueeze(1)
            mine[: len(sizes)].masked_scatter_(masks[sizes], taken)

    def __iter__(self) -> Iterator[Step]:
        for number in range(self.places.shape[1]):
            yield Step(number, [each[number] for each in self._sizes if len(each) > number])
