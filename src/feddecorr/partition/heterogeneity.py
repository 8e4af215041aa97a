"""How much the clients of a split differ: label counts, and the measures that follow from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from feddecorr.partition.split import Indices, Parts

MEANINGS = {
    "clients": "number of clients",
    "examples": "training examples of all clients",
    "smallest": "examples of the smallest client",
    "largest": "examples of the largest client",
    "gini_of_sizes": "0: all clients hold equally many; near 1: one holds nearly all",
    "mean_classes": "classes of which a client holds any example",
    "mean_label_entropy": "entropy of a client's labels, in nats",
    "mean_effective_classes": "number of equally frequent classes with a client's label entropy",
    "mean_distance": "total variation distance of a client's labels to all labels, from 0 to 1",
}
"""The meaning of each number of a summary."""


@dataclass(frozen=True)
class LabelCounts:
    """The number of a client's examples of a class, by client and then by class, where it is not 0.

    There are never more entries than examples, so this does not grow with clients × classes.
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


def count_labels(parts: Parts, labels: Indices, classes: int) -> Indices:
    """Return the number of examples of each class (column) that each client (row) holds."""
    return LabelCounts.of(parts, labels, classes).table()


@dataclass(frozen=True)
class Heterogeneity:
    """Measures of each client of a split, each an array with one entry per client.

    `classes` is the number of classes of which it holds any example. `entropy` is that of its labels, in nats, and
    `effective_classes` its exponential: that number of equally frequent classes has the same entropy.
    `distance` is the total variation distance of its label distribution to that of all examples,
    ½ Σ |p − q|: 0 if they are equal, 1 if they share no class.
    """

    sizes: Indices
    classes: Indices
    entropy: NDArray[np.float64]
    effective_classes: NDArray[np.float64]
    distance: NDArray[np.float64]

    @classmethod
    def of(cls, counts: Indices) -> Heterogeneity:
        """Measure a table of examples by client (row) and class (column)."""
        sizes = counts.sum(1)
        shares = counts / sizes[:, None]
        overall = counts.sum(0) / counts.sum()
        logs = np.log(shares, where=shares > 0, out=np.zeros_like(shares))
        entropy = -(shares * logs).sum(1) + 0.0  # no negative zero
        return cls(
            sizes=sizes,
            classes=(counts > 0).sum(1),
            entropy=entropy,
            effective_classes=np.exp(entropy),
            distance=np.abs(shares - overall).sum(1) / 2,
        )

    def summary(self) -> dict[str, float]:
        """Return the unweighted means over the clients, and how unequal the sizes are."""
        return {
            "clients": len(self.sizes),
            "examples": int(self.sizes.sum()),
            "smallest": int(self.sizes.min()),
            "largest": int(self.sizes.max()),
            "gini_of_sizes": gini(self.sizes),
            "mean_classes": float(self.classes.mean()),
            "mean_label_entropy": float(self.entropy.mean()),
            "mean_effective_classes": float(self.effective_classes.mean()),
            "mean_distance": float(self.distance.mean()),
        }


def gini(sizes: Indices) -> float:
    """Return the Gini coefficient: 0 if all are equal, near 1 if one holds nearly everything.

    It is the mean absolute difference between two sizes drawn at random, divided by twice the mean.
    """
    count = len(sizes)
    ranks = 2 * np.arange(1, count + 1) - count - 1
    return float(np.sort(sizes) @ ranks / (count * sizes.sum()))
