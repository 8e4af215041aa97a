"""Who holds which examples: the training labels go in, a list of index arrays (one a client) comes out."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from feddecorr.errors import UserError
from feddecorr.kinds import Family, Kind
from feddecorr.randomness import frozen_stream

Parts = list[NDArray[np.int64]]


class Partition(Kind):
    """A way to deal the training examples out to clients; every example goes to exactly one."""

    minimum: int = Field(10, ge=1, description="examples that every client must hold")

    def split(self, labels: NDArray[np.int64], *, clients: int, seed: int) -> Parts:
        """Return each client's indices, sorted; the same for the same seed on every platform."""
        if clients * self.minimum > len(labels):
            raise UserError(
                f"{clients} clients with at least {self.minimum} examples each need {clients * self.minimum} "
                f"examples, but there are {len(labels)}: lower clients or partition.minimum"
            )
        return self._deal(labels, clients, frozen_stream(seed, "partition"))

    def _deal(self, labels: NDArray[np.int64], clients: int, stream: np.random.RandomState) -> Parts:
        raise NotImplementedError


class Homogeneous(Partition):
    """Every client holds the same number of examples of every class, up to one."""

    def _deal(self, labels: NDArray[np.int64], clients: int, stream: np.random.RandomState) -> Parts:
        by_class = np.concatenate([stream.permutation(members) for members in _classes(labels)])
        return [np.sort(by_class[client::clients]) for client in range(clients)]


class Dirichlet(Partition):
    """Each class is spread over the clients by a draw from a Dirichlet distribution; small alpha, strong skew.

    With `balance`, as in the code of the paper's authors, a client that already holds its equal share of all
    examples gets none of the classes that follow. The draw is repeated until every client holds `minimum`.
    """

    alpha: float = Field(0.5, gt=0, allow_inf_nan=True, description="concentration; inf deals homogeneously")
    balance: bool = Field(True, description="no more classes for a client that holds its equal share")
    attempts: int = Field(10_000, ge=1, description="draws before giving up on the minimum")

    def _deal(self, labels: NDArray[np.int64], clients: int, stream: np.random.RandomState) -> Parts:
        if math.isinf(self.alpha):
            return Homogeneous(minimum=self.minimum)._deal(labels, clients, stream)
        classes = _classes(labels)
        best = 0
        for _ in range(self.attempts):
            parts = self._draw(classes, clients, stream)
            smallest = min(map(len, parts))
            if smallest >= self.minimum:
                return [np.sort(part) for part in parts]
            best = max(best, smallest)
        raise UserError(
            f"no Dirichlet split with alpha {self.alpha:g} gave each of {clients} clients {self.minimum} of "
            f"{len(labels)} examples in {self.attempts} draws (the best smallest client held {best}): "
            "lower partition.minimum or clients, or raise partition.alpha"
        )

    def _draw(self, classes: Parts, clients: int, stream: np.random.RandomState) -> Parts:
        share = sum(map(len, classes)) / clients
        parts: Parts = [np.empty(0, np.int64) for _ in range(clients)]
        for members in classes:
            logs = _log_dirichlet(self.alpha, clients, stream)
            if self.balance:
                logs[[len(part) >= share for part in parts]] = -np.inf
            proportions = np.exp(logs - logs.max())
            edges = np.cumsum(proportions)[:-1] / proportions.sum() * len(members)
            pieces = np.split(stream.permutation(members), edges.astype(np.int64))
            parts = [np.concatenate(pair) for pair in zip(parts, pieces, strict=True)]
        return parts


def _classes(labels: NDArray[np.int64]) -> Parts:
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]


def _log_dirichlet(alpha: float, size: int, stream: np.random.RandomState) -> NDArray[np.float64]:
    """Draw unnormalized logarithms of a symmetric Dirichlet vector.

    If G ~ Gamma(alpha + 1) and U is uniform, G·U^(1/alpha) ~ Gamma(alpha). Its logarithm stays finite for
    any alpha, where the draw itself underflows to zero.
    """
    return np.log(stream.gamma(alpha + 1, size=size)) + np.log1p(-stream.uniform(size=size)) / alpha


PARTITIONS = Family("partition", Partition, {"dirichlet": Dirichlet, "homogeneous": Homogeneous})
