"""How much the clients of a split differ, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from feddecorr.partition.label_counts import LabelCounts
from feddecorr.partition.split import Indices, Parts

MEANINGS = {
    "clients": "number of clients",
    "examples": "training examples that they hold together",
    "smallest": "examples of the smallest client",
    "largest": "examples of the largest client",
    "gini_of_sizes": "0: all clients hold equally many; near 1: one holds nearly all",
    "mean_classes": "classes that a client holds at all",
    "mean_label_entropy": "entropy of a client's labels, in nats",
    "mean_effective_classes": "equally frequent classes with a client's label entropy",
    "mean_distance": "total variation distance of a client's labels to all labels, from 0 to 1",
}
"""What each number of a summary is."""


def count_labels(parts: Parts, labels: Indices, classes: int) -> Indices:
    """Return the number of examples of each class (column) that each client (row) holds."""
    return LabelCounts.of(parts, labels, classes).table()


@dataclass(frozen=True)
class Heterogeneity:
    """Numbers of each client of a split, each an array with one entry a client.

    `classes` is how many classes it holds at all. `entropy` is that of its labels, in nats, and
    `effective_classes` its exponential: as many equally frequent classes would have that entropy.
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
        """Take the numbers of examples by client and class."""
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
        """Return the means over the clients (each counts the same), and how unequal the sizes are."""
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

    It is the mean absolute difference of two, each drawn from all, divided by twice the mean.
    """
    count = len(sizes)
    ranks = 2 * np.arange(1, count + 1) - count - 1
    return float(np.sort(sizes) @ ranks / (count * sizes.sum()))
