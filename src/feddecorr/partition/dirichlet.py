"""Label skew: each class is spread by a Dirichlet draw of its own."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from feddecorr.errors import UserError
from feddecorr.partition.homogeneous import Homogeneous
from feddecorr.partition.split import Indices, Partition, members_by_class


class Dirichlet(Partition):
    """Each class is spread over the clients by a draw from a Dirichlet distribution; small alpha, strong skew.

    With `balance`, a client that is full gets none of the classes that follow (classes come in the order of
    their labels). It is full above its equal share of all examples, as in flwr-datasets, or already at it, as
    in the code of the paper's authors. The two differ where a share is as large as a class: the second lets a
    client that took a whole class get no other. The draw is repeated until every client holds `minimum`.
    """

    alpha: float = Field(0.5, gt=0, allow_inf_nan=True, description="concentration; inf deals homogeneously")
    balance: bool = Field(True, description="no more classes for a client that is full")
    capacity_rule: Literal["above", "at"] = Field("above", description="a client is full above, or at, its equal share")
    attempts: int = Field(2000, ge=1, description="draws before giving up on the minimum")

    def deal(self, labels: Indices, clients: int, stream: np.random.RandomState) -> Indices:
        """Draw until every client holds the minimum."""
        if math.isinf(self.alpha):
            return Homogeneous().deal(labels, clients, stream)
        members = members_by_class(labels)
        best = 0
        for _ in range(self.attempts):
            counts = self._draw([len(indices) for indices in members], clients, stream)
            smallest = int(counts.sum(0).min())
            if smallest >= self.minimum:
                holders = np.empty(len(labels), np.int64)
                for indices, row in zip(members, counts, strict=True):
                    holders[stream.permutation(indices)] = np.repeat(np.arange(clients), row)
                return holders
            best = max(best, smallest)
        raise UserError(
            f"no Dirichlet split with alpha {self.alpha:g} gave each of {clients} clients {self.minimum} of "
            f"{len(labels)} examples in {self.attempts} draws (the best smallest client held {best}): "
            "lower partition.minimum or clients, or raise partition.alpha"
        )

    def _draw(self, sizes: list[int], clients: int, stream: np.random.RandomState) -> Indices:
        """Return the number of examples of each class (row) for each client (column)."""
        share = sum(sizes) / clients
        held = np.zeros(clients, np.int64)
        counts = []
        for size, logs in zip(sizes, draw_logs(self.alpha, (len(sizes), clients), stream), strict=True):
            if self.balance:
                logs[held > share if self.capacity_rule == "above" else held >= share] = -np.inf
            counts.append(cut(size, logs))
            held += counts[-1]
        return np.stack(counts)


def draw_logs(alpha: float, size: int | tuple[int, int], stream: np.random.RandomState) -> NDArray[np.float64]:
    """Draw unnormalized logarithms of a symmetric Dirichlet vector, or of several as rows.

    If G ~ Gamma(alpha + 1) and U is uniform, G·U^(1/alpha) ~ Gamma(alpha). Its logarithm stays finite for
    any alpha, where the draw itself underflows to zero.
    """
    return np.log(stream.gamma(alpha + 1, size=size)) + np.log1p(-stream.uniform(size=size)) / alpha


def cut(count: int, logs: NDArray[np.float64]) -> Indices:
    """Cut a number into whole numbers in these proportions, each within one of its exact share."""
    cumulative = np.cumsum(np.exp(logs - logs.max()))
    edges = (cumulative / cumulative[-1] * count).astype(np.int64)
    pieces: Indices = edges.copy()
    pieces[1:] -= edges[:-1]
    return pieces
