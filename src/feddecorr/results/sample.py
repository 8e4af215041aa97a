"""One number for each seed: their mean, and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean, stdev

from scipy.special import stdtr, stdtrit

CONFIDENCE = 0.95

PERCENT = ("accuracy",)
"""Measures that are shown in percent; documents (JSON, records) keep fractions."""


def factor_of(measure: str) -> float:
    """Return the factor by which a measure is shown."""
    return 100.0 if measure in PERCENT else 1.0


def half_width(deviation: float, count: int) -> float:
    """Return half the length of the 95 % interval of Student's t around the mean of that many normal numbers."""
    if count < 2:
        return math.inf
    return float(stdtrit(count - 1, (1 + CONFIDENCE) / 2)) * deviation / math.sqrt(count)


@dataclass(frozen=True)
class Sample:
    """Numbers by seed; `declared` is how many seeds were planned, if that is known.

    With one seed nothing is known of the spread, and the interval is without end.
    """

    values: Mapping[int, float]
    declared: int | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_complete(self) -> bool:
        """Whether all planned seeds are there."""
        return self.declared is None or len(self) >= self.declared

    @property
    def mean(self) -> float:
        """The mean; of no seed at all, not a number."""
        return fmean(self.values.values()) if self.values else math.nan

    @property
    def deviation(self) -> float:
        """The standard deviation between seeds (with n − 1)."""
        return stdev(self.values.values()) if len(self.values) > 1 else math.nan

    def text(self, digits: int) -> str:
        """Return mean ± deviation; of one seed the mean alone, of none nothing."""
        if not self.values:
            return ""
        return f"{self.mean:.{digits}f}" + (f" ± {self.deviation:.{digits}f}" if len(self) > 1 else "")

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return half_width(self.deviation, len(self.values))

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.mean + self.half_width

    @property
    def p_value(self) -> float:
        """The two-sided p-value of Student's t for a mean of zero; not a number with fewer than two seeds."""
        if len(self) < 2:
            return math.nan
        if not self.deviation:
            return 1.0 if not self.mean else 0.0
        t = abs(self.mean) * math.sqrt(len(self)) / self.deviation
        return 2 * float(stdtr(len(self) - 1, -t))

    @property
    def wins(self) -> int:
        """In how many seeds the number is above zero."""
        return sum(value > 0 for value in self.values.values())

    def minus(self, other: Sample) -> Sample:
        """Return the paired differences, over the seeds that both have."""
        differences = {seed: value - other.values[seed] for seed, value in self.values.items() if seed in other.values}
        return Sample(differences, fewest((self.declared, other.declared)))

    def times(self, factor: float) -> Sample:
        """Return the numbers in another unit."""
        return Sample({seed: factor * value for seed, value in self.values.items()}, self.declared)


def fewest(declared: Iterable[int | None]) -> int | None:
    """Return how many seeds were planned for numbers that are put together: the fewest."""
    return min((count for count in declared if count is not None), default=None)


def mean_of(samples: Iterable[Sample]) -> Sample:
    """Return the mean of several numbers, over the seeds that all have."""
    found = list(samples)
    seeds = sorted(set.intersection(*(set(sample.values) for sample in found)))
    means = {seed: fmean(sample.values[seed] for sample in found) for seed in seeds}
    return Sample(means, fewest(sample.declared for sample in found))
