"""Quantity skew: clients differ in size, not in labels."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from feddecorr.partition.dirichlet import cut, draw_logs
from feddecorr.partition.split import Indices, Partition


class Quantity(Partition):
    """Sizes differ by a draw from a Dirichlet distribution; labels are dealt at random.

    Every client gets `minimum` examples; the proportions in which the others are dealt are drawn once.
    """

    alpha: float = Field(0.5, gt=0, description="concentration; the smaller, the more sizes differ")

    def deal(self, labels: Indices, clients: int, stream: np.random.RandomState) -> Indices:
        """Draw the sizes, and cut a shuffle of all examples."""
        others = len(labels) - clients * self.minimum
        sizes = self.minimum + cut(others, draw_logs(self.alpha, clients, stream))
        holders = np.empty(len(labels), np.int64)
        holders[stream.permutation(len(labels))] = np.repeat(np.arange(clients), sizes)
        return holders
