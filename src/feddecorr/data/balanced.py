"""A part of a labelled set in which all classes are equally frequent."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def balanced_part(labels: NDArray[np.int64], count: int, stream: np.random.RandomState) -> NDArray[np.int64]:
    """Return `count` sorted indices, as evenly from all classes as they allow.

    A class that has too few gives all it has, and the others give more. What is left over by rounding comes
    from classes drawn at random, one each. A larger part of the same stream contains a smaller one, up to that.
    """
    members = [stream.permutation(np.flatnonzero(labels == label)) for label in np.unique(labels)]
    sizes = np.array([len(indices) for indices in members])
    quotas = np.zeros_like(sizes)
    while (left := count - quotas.sum()) > 0:
        unfinished = np.flatnonzero(quotas < sizes)
        if left < len(unfinished):
            quotas[stream.permutation(unfinished)[:left]] += 1
        else:
            quotas[unfinished] = np.minimum(sizes, quotas + left // len(unfinished))[unfinished]
    return np.sort(np.concatenate([indices[:quota] for indices, quota in zip(members, quotas, strict=True)]))
