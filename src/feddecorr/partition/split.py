"""The base class of splits, and what they return."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from feddecorr.core.randomness import frozen_stream
from feddecorr.core.registry import Config
from feddecorr.errors import UserError

Indices = NDArray[np.int64]
"""Whole numbers, one for each example: labels, clients, or indices."""

UNASSIGNED = -1
"""Stands for the client of an example that is left out."""


@dataclass(frozen=True)
class Parts:
    """The indices of each client's training examples, one client after another.

    Client k holds `order[bounds[k]:bounds[k + 1]]`. So a million clients take two arrays, not a million.
    """

    order: Indices
    bounds: Indices

    @classmethod
    def of(cls, lists: Sequence[Sequence[int] | Indices]) -> Parts:
        """Build from each client's indices."""
        sizes = np.fromiter(map(len, lists), np.int64, len(lists))
        order = np.fromiter(chain.from_iterable(lists), np.int64, sizes.sum())
        return cls(order, _bounds(sizes))

    @classmethod
    def held_by(cls, holders: Indices, clients: int) -> Parts:
        """Build from the client of each example; each client's indices are sorted."""
        left_out = np.count_nonzero(holders == UNASSIGNED)
        sizes = np.bincount(holders[holders != UNASSIGNED] if left_out else holders, minlength=clients)
        return cls(np.argsort(holders, kind="stable")[left_out:], _bounds(sizes))

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, client: int) -> Indices:
        start, end = self.bounds[client : client + 2]
        return self.order[start:end]

    def __iter__(self) -> Iterator[Indices]:
        return (self[client] for client in range(len(self)))

    @property
    def sizes(self) -> Indices:
        """The number of examples of each client."""
        return np.diff(self.bounds)

    @property
    def holders(self) -> Indices:
        """The client of each entry of `order`."""
        return np.repeat(np.arange(len(self)), self.sizes)


def _bounds(sizes: Indices) -> Indices:
    return np.concatenate([[0], np.cumsum(sizes)])


class Partition(Config):
    """A way to split the training examples among clients; every example goes to exactly one."""

    pins: ClassVar[Mapping[str, str]] = {"path": "sha256"}

    minimum: int = Field(10, ge=1, description="examples that every client must hold")

    def split(self, labels: Indices, *, clients: int, seed: int, owners: Indices | None = None) -> Parts:
        """Return each client's indices, sorted; the same for the same seed on every platform.

        `owners` is the client of each example where the data say it; only `Given` looks at it.
        """
        if clients * self.minimum > len(labels):
            raise UserError(
                f"{clients} clients with at least {self.minimum} examples each need {clients * self.minimum} "
                f"examples, but there are {len(labels)}: lower clients or partition.minimum"
            )
        holders = self._holders(labels, owners, clients, seed)
        if len(holders) != len(labels) or holders.min(initial=0) < UNASSIGNED or holders.max(initial=0) >= clients:
            raise UserError(
                f"{type(self).__name__}.assign must return a client from 0 to {clients - 1} for each of {len(labels)} "
                f"examples, not {holders}"
            )
        parts = Parts.held_by(holders, clients)
        smallest = int(parts.sizes.argmin())
        if len(parts[smallest]) < self.minimum:
            raise UserError(
                f"client {smallest} would hold {len(parts[smallest])} examples, fewer than partition.minimum="
                f"{self.minimum}: lower it, or make clients more equal in size"
            )
        return parts

    def _holders(self, labels: Indices, owners: Indices | None, clients: int, seed: int) -> Indices:  # noqa: ARG002
        return self.assign(labels, clients, frozen_stream(seed, "partition"))

    def assign(self, labels: Indices, clients: int, stream: np.random.RandomState) -> Indices:
        """Return the client that holds each example."""
        raise NotImplementedError


def members_by_class(labels: Indices) -> list[Indices]:
    """Return the indices of each class that occurs, in the order of the labels."""
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]
