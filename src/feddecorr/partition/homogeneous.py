"""The split without heterogeneity."""

from __future__ import annotations

import numpy as np

from feddecorr.partition.split import Indices, Partition, members_by_class


class Homogeneous(Partition):
    """Every client holds the same number of examples of every class, up to one."""

    def deal(self, labels: Indices, clients: int, stream: np.random.RandomState) -> Indices:
        """Shuffle each class, put one after the other, and give every client each n-th example."""
        by_class = np.concatenate([stream.permutation(members) for members in members_by_class(labels)])
        holders = np.empty_like(by_class)
        holders[by_class] = np.arange(len(labels)) % clients
        return holders
