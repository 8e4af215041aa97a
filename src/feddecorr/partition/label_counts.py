"""Who holds how many examples of which class, in a form that does not grow with clients × classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from feddecorr.partition.split import Indices, Parts


@dataclass(frozen=True)
class LabelCounts:
    """One entry for each client and class of which it holds any, by client and then by class.

    There are never more entries than examples.
    """

    clients: int
    classes: int
    client: NDArray[np.int32]
    label: NDArray[np.int32]
    count: NDArray[np.int32]

    @classmethod
    def of(cls, parts: Parts, labels: Indices, classes: int) -> LabelCounts:
        """Count the labels of each client's examples."""
        pairs, counts = np.unique(parts.holders * classes + labels[parts.order], return_counts=True)
        client, label = np.divmod(pairs, classes)
        return cls(
            len(parts), classes, client.astype(np.int32), label.astype(np.int32), counts.astype(np.int32, copy=False)
        )

    def table(self, clients: int | None = None) -> Indices:
        """Return a row for each client, or for the first ones, and a column for each class."""
        shown = self.clients if clients is None else min(clients, self.clients)
        known = slice(int(np.searchsorted(self.client, shown)))
        table = np.zeros((shown, self.classes), np.int64)
        table[self.client[known], self.label[known]] = self.count[known]
        return table
