"""Label skew: each client holds a few classes only."""

from __future__ import annotations

import numpy as np
from pydantic import Field, PositiveInt

from feddecorr.errors import UserError
from feddecorr.partition.split import Indices, Partition, members_by_class


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
