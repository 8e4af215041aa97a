"""Label skew and quantity skew: Dirichlet draws, the homogeneous split, and a few classes for each client."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from feddecorr.errors import UserError
from feddecorr.partition.split import Indices, Partition, members_by_class


class Homogeneous(Partition):
    """Every client holds the same number of examples of every class, give or take one."""

    def assign(self, labels: Indices, clients: int, stream: np.random.RandomState) -> Indices:
        """Shuffle each class, concatenate them, and give every client each n-th example."""
        by_class = np.concatenate([stream.permutation(members) for members in members_by_class(labels)])
        holders = np.empty_like(by_class)
        holders[by_class] = np.arange(len(labels)) % clients
        return holders


class Dirichlet(Partition):
    """Each class is spread over the clients in proportions from a Dirichlet distribution; small alpha, strong skew.

    With `balance`, a client that is full receives nothing of the later classes (classes come in the order of
    their labels). A client is full above its equal share of all examples, as in flwr-datasets, or already at it, as
    in the code of the paper's authors. The two differ where a share is as large as a class: under the second rule, a
    client with one whole class receives no other. The draw is repeated until every client holds `minimum`.
    """

    alpha: float = Field(0.5, gt=0, allow_inf_nan=True, description="concentration; inf splits homogeneously")
    balance: bool = Field(True, description="no further classes for a client that is full")
    capacity_rule: Literal["above", "at"] = Field("above", description="a client is full above, or at, its equal share")
    attempts: int = Field(2000, ge=1, description="draws before giving up on the minimum")

    def assign(self, labels: Indices, clients: int, stream: np.random.RandomState) -> Indices:
        """Draw until every client holds the minimum."""
        if math.isinf(self.alpha):
            return Homogeneous().assign(labels, clients, stream)
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
            f"{len(labels)} examples in {self.attempts} draws (in the best, the smallest client held {best}): "
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


class EqualShares(Partition):
    """Every client holds as many examples as every other, of classes in proportions of its own Dirichlet draw.

    As in the code of Acar et al. (FedDyn, ICLR 2021) and of FedACG, FedRCL and FedWSQ after them. One client after the
    other draws its proportions, and then its examples among those that are left, each with the proportion of its class:
    the last ones get what remains. There is always such a split, also of many clients with a small alpha.
    """

    alpha: float = Field(0.3, gt=0, allow_inf_nan=True, description="concentration; inf splits homogeneously")

    def assign(self, labels: Indices, clients: int, stream: np.random.RandomState) -> Indices:
        """Let one client after the other draw; the first take one example more where the numbers do not divide."""
        if math.isinf(self.alpha):
            return Homogeneous().assign(labels, clients, stream)
        holders = np.full(len(labels), clients - 1)
        left = [stream.permutation(members).tolist() for members in members_by_class(labels)]
        for client in range(clients - 1):
            logs = draw_logs(self.alpha, len(left), stream)
            for _ in range(len(labels) // clients + (client < len(labels) % clients)):
                # Among the examples that are left, each weighs as much as its class: the class as all of them.
                counts = np.array([len(members) for members in left])
                known = np.where(counts > 0, logs, -np.inf)
                cumulative = np.cumsum(counts * np.exp(known - known.max()))
                label = int(np.searchsorted(cumulative, stream.uniform() * cumulative[-1], side="right"))
                holders[left[label].pop()] = client
        return holders


class Quantity(Partition):
    """Clients differ in size, by a draw from a Dirichlet distribution; labels are random.

    Every client gets `minimum` examples; the proportions of the remaining ones are drawn once.
    """

    alpha: float = Field(0.5, gt=0, description="concentration; the smaller, the more sizes differ")

    def assign(self, labels: Indices, clients: int, stream: np.random.RandomState) -> Indices:
        """Draw the sizes, and cut a shuffle of all examples."""
        remaining = len(labels) - clients * self.minimum
        sizes = self.minimum + cut(remaining, draw_logs(self.alpha, clients, stream))
        holders = np.empty(len(labels), np.int64)
        holders[stream.permutation(len(labels))] = np.repeat(np.arange(clients), sizes)
        return holders


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


class ClassesPerClient(Partition):
    """Each client holds exactly C classes, in shards after McMahan et al. (2017).

    There are C shards for each client. Each class is cut into whole shards, so that shards are as equal in size as
    possible (the next shard always goes to the class with the most examples per shard, counting the new one; a class
    has at least one shard and at most one for each client). Then one client after the other takes C shards at random,
    of C different classes. McMahan et al. sort the examples by label and cut them without regard to where a class
    ends, so their clients may hold more than C classes, or fewer.
    """

    per_client: PositiveInt = Field(2, description="classes of each client, C")

    def assign(self, labels: Indices, clients: int, stream: np.random.RandomState) -> Indices:
        """Cut classes into shards, and give each client its own."""
        members = members_by_class(labels)
        if self.per_client > len(members) or clients * self.per_client < len(members):
            raise UserError(
                f"{clients} clients with {self.per_client} classes each cannot hold all of the {len(members)} classes: "
                f"choose partition.per_client from {-(-len(members) // clients)} to {len(members)}"
            )
        shards = []
        for indices, count in zip(members, self._count_shards(members, clients, stream), strict=True):
            shards.append(np.array_split(stream.permutation(indices), count))
        holders = np.empty(len(labels), np.int64)
        for client in range(clients):
            for label in self._take(np.array([len(held) for held in shards]), clients - client, stream):
                holders[shards[label].pop()] = client
        return holders

    def _count_shards(self, members: list[Indices], clients: int, stream: np.random.RandomState) -> Indices:
        """Return the number of shards of each class; among classes of equal size, chance decides which gets more."""
        sizes = np.array([len(indices) for indices in members])
        most = np.minimum(sizes, clients)
        if most.sum() < clients * self.per_client:
            raise UserError(
                f"{clients} clients cannot each hold examples of {self.per_client} classes, since some classes have "
                "fewer examples than there are clients: lower clients or partition.per_client"
            )
        counts = np.ones_like(sizes)
        order = stream.permutation(len(sizes))
        for _ in range(clients * self.per_client - len(sizes)):
            quotients = np.where(counts < most, sizes / (counts + 1), -1)
            counts[order[np.argmax(quotients[order])]] += 1
        return counts

    def _take(self, remaining: Indices, left: int, stream: np.random.RandomState) -> list[int]:
        """Return the classes of the next of `left` clients, so that the others can still get C different ones.

        A class with as many shards as there are clients left has to be taken; no other condition is needed
        (by the Gale–Ryser theorem, since all clients take the same number).
        """
        forced = np.flatnonzero(remaining == left).tolist()
        shuffled = stream.permutation(np.repeat(np.arange(len(remaining)), remaining)).tolist()
        return list(dict.fromkeys(forced + shuffled))[: self.per_client]
