"""One number for each seed: their mean, and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean, stdev

from scipy.special import stdtrit

CONFIDENCE = 0.95


def half_width(deviation: float, count: int) -> float:
    """Return half the length of the 95 % interval of Student's t around the mean of so many normal numbers."""
    if count < 2:
        return math.inf
    return float(stdtrit(count - 1, (1 + CONFIDENCE) / 2)) * deviation / math.sqrt(count)


@dataclass(frozen=True)
class Sample:
    """Numbers by seed. With one seed nothing is known of the spread, and the interval is without end."""

    values: Mapping[int, float]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float:
        """The mean; of no seed at all, not a number."""
        return fmean(self.values.values()) if self.values else math.nan

    @property
    def deviation(self) -> float:
        """The standard deviation between seeds (with n − 1)."""
        return stdev(self.values.values()) if len(self.values) > 1 else math.nan

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.mean - half_width(self.deviation, len(self.values))

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.mean + half_width(self.deviation, len(self.values))

    @property
    def wins(self) -> int:
        """In how many seeds the number is above zero."""
        return sum(value > 0 for value in self.values.values())

    def minus(self, other: Sample) -> Sample:
        """Return the paired differences, over the seeds that both have."""
        return Sample({seed: value - other.values[seed] for seed, value in self.values.items() if seed in other.values})

    def times(self, factor: float) -> Sample:
        """Return the numbers in another unit."""
        return Sample({seed: factor * value for seed, value in self.values.items()})
