"""One pass over representations: statistics, decisions, and a few samples to draw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from feddecorr.collapse.comparison import CrossMoments
from feddecorr.collapse.statistics import Statistics, check
from feddecorr.errors import UserError

CHUNK = 4096
"""Samples that are summed at once: large products are quick, and results do not depend on the size of batches."""

SAMPLE = 1 << 24
"""Numbers that the sample may hold: 64 megabytes of float32, which is 13 107 samples at d = 1280."""


class Batch(NamedTuple):
    """Representations of shape (n, d) and, each of n and each if there is one: labels, decisions, a reference.

    `decisions` are the classes that the model chose, `reference` another model's representations of the same.
    """

    z: Tensor
    labels: Tensor | None = None
    decisions: Tensor | None = None
    reference: Tensor | None = None


class Subsample:
    """The representations of every k-th sample, k the smallest power of two for which there is room."""

    def __init__(self, room: int = SAMPLE) -> None:
        self.step = 1
        self._room = room
        self._next = 0
        self._parts: list[Batch] = []

    def add(self, batch: Batch) -> None:
        """Take from a batch what fits into the pattern."""
        first = -self._next % self.step
        self._next += len(batch.z)
        taken = Batch(batch.z.float(), batch.labels, batch.decisions)
        self._parts.append(_own(_cut(taken, first, None, self.step)))
        rows = max(1, self._room // batch.z.shape[1])
        while sum(len(part.z) for part in self._parts) > rows:
            self._parts = [_own(_cut(self.batch, 0, None, 2))]
            self.step *= 2

    @property
    def batch(self) -> Batch:
        """All that was taken."""
        return _join(self._parts)


@dataclass(frozen=True)
class ChunkStatistics:
    """The statistics of one chunk, on its own; the chunk is kept for the subsample."""

    chunk: Batch
    statistics: Statistics
    right: int | None
    together: CrossMoments | None

    @classmethod
    def of(cls, chunk: Batch) -> ChunkStatistics:
        """Look at a chunk."""
        return cls(
            chunk,
            Statistics.of(chunk.z, chunk.labels),
            None if chunk.labels is None or chunk.decisions is None else int((chunk.labels == chunk.decisions).sum()),
            None if chunk.reference is None else CrossMoments.of(chunk.z, chunk.reference),
        )


@dataclass(frozen=True)
class Gathered:
    """What one pass leaves: `right` is the number of right decisions, None without labels or decisions."""

    statistics: Statistics
    sample: Subsample
    right: int | None
    together: CrossMoments | None


def gather(batches: Iterable[Batch]) -> Gathered:
    """Go once over all batches."""
    return add_up(map(ChunkStatistics.of, chunks(batches)))


def add_up(parts: Iterable[ChunkStatistics]) -> Gathered:
    """Put parts together, one after another: their order is a part of the result's last bits."""
    statistics, together, right, sample = None, None, None, Subsample()
    for part in parts:
        statistics = part.statistics if statistics is None else statistics + part.statistics
        sample.add(part.chunk)
        if part.right is not None:
            right = (right or 0) + part.right
        if part.together is not None:
            together = part.together if together is None else together + part.together
    if statistics is None:
        raise UserError("there are no samples: the loader gave no batch")
    return Gathered(statistics, sample, right, together)


def chunks(batches: Iterable[Batch], size: int = CHUNK) -> Iterator[Batch]:
    """Cut the stream of batches anew, into batches of that size and a last one."""
    waiting: list[Batch] = []
    count = 0
    for batch in batches:
        check(batch.z, batch.labels)
        start = 0
        while start < len(batch.z):
            part = _cut(batch, start, start + size - count, 1)
            waiting.append(part)
            start, count = start + len(part.z), count + len(part.z)
            if count == size:
                yield _join(waiting)
                waiting, count = [], 0
    if waiting:
        yield _join(waiting)


def _cut(batch: Batch, start: int, stop: int | None, step: int) -> Batch:
    z, *others = batch
    return Batch(z[start:stop:step], *(None if each is None else each[start:stop:step] for each in others))


def _own(batch: Batch) -> Batch:
    """Return a copy: a cut alone would keep all of the batch in memory that it is cut from."""
    z, *others = batch
    return Batch(z.clone(), *(None if each is None else each.clone() for each in others))


def _join(parts: list[Batch]) -> Batch:
    if len(parts) == 1:
        return parts[0]
    if len(widths := {part.z.shape[1] for part in parts}) > 1:
        raise UserError(f"batches differ in their number of features: {sorted(widths)}")
    z, *others = zip(*parts, strict=True)
    return Batch(torch.cat(z), *map(_join_column, others))


def _join_column(parts: tuple[Tensor | None, ...]) -> Tensor | None:
    there = [part for part in parts if part is not None]
    if there and len(there) < len(parts):
        raise UserError("some of the samples have labels and some have none")
    return torch.cat(there) if there else None
