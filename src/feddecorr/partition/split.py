"""What every kind of split offers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from feddecorr.errors import UserError
from feddecorr.randomness import frozen_stream
from feddecorr.settings.kinds import Kind

Indices = NDArray[np.int64]
"""Whole numbers, one for each example: labels, or places in a list."""

Parts = list[Indices]
"""The indices of each client's training examples."""


class Partition(Kind):
    """A way to deal the training examples out to clients; every example goes to exactly one."""

    minimum: int = Field(10, ge=1, description="examples that every client must hold")

    def split(self, labels: Indices, *, clients: int, seed: int) -> Parts:
        """Return each client's indices, sorted; the same for the same seed on every platform."""
        if clients * self.minimum > len(labels):
            raise UserError(
                f"{clients} clients with at least {self.minimum} examples each need {clients * self.minimum} "
                f"examples, but there are {len(labels)}: lower clients or partition.minimum"
            )
        parts = [np.sort(part) for part in self.deal(labels, clients, frozen_stream(seed, "partition"))]
        smallest = min(range(clients), key=lambda client: len(parts[client]))
        if len(parts[smallest]) < self.minimum:
            raise UserError(
                f"client {smallest} would hold {len(parts[smallest])} examples, fewer than partition.minimum="
                f"{self.minimum}: lower it, or let clients differ less in size"
            )
        return parts

    def deal(self, labels: Indices, clients: int, stream: np.random.RandomState) -> Parts:
        """Return one array of indices for each client, in any order."""
        raise NotImplementedError


def members_by_class(labels: Indices) -> Parts:
    """Return the indices of each class that occurs, in the order of the labels."""
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]


def deal_counts(members: Parts, counts: Indices, stream: np.random.RandomState) -> Parts:
    """Give each client so many examples of each class, drawn at random; `counts` has a row for each class."""
    dealt = [
        np.split(stream.permutation(indices), np.cumsum(row)[:-1]) for indices, row in zip(members, counts, strict=True)
    ]
    return [np.concatenate(pieces) for pieces in zip(*dealt, strict=True)]
