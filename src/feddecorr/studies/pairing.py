"""Two arms of a comparison, seed by seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Paired:
    """The mean difference of second minus first, its 95 % interval, and in how many seeds second was larger.

    The interval is Student's t over the differences; with one seed nothing is known, and its ends are infinite.
    """

    mean: float
    low: float
    high: float
    wins: int
    seeds: int
    method: str = "t"


def compare_pairs(first: Sequence[float], second: Sequence[float]) -> Paired:
    """Compare values of the same seeds, in the same order."""
    from scipy.stats import t  # noqa: PLC0415 - takes a second to import

    differences = [theirs - ours for ours, theirs in zip(first, second, strict=True)]
    count = len(differences)
    mean = fmean(differences)
    half = math.inf
    if count > 1:
        half = float(t.ppf((1 + CONFIDENCE) / 2, count - 1)) * stdev(differences) / math.sqrt(count)
    return Paired(mean, mean - half, mean + half, sum(difference > 0 for difference in differences), count)
