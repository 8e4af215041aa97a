"""When an interval decides, and which way: the rules were written before the runs, and docs/claims.md explains them.

Every rule looks at the 95 % interval of a mean over seeds, and says yes, no, or that it cannot tell. Numbers are
turned so that what is claimed is positive. Seen from the other side (numbers negated, claim reversed) each rule
gives the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from feddecorr.results.sample import Sample, half_width

DecisionRule = Callable[[float, float], bool | None]
"""From the ends of an interval: the claim is true, it is not, or nobody can tell."""

FEWEST_SEEDS = 5
MOST_SEEDS = 1000
"""The number of seeds that would settle a question is reported up to this one."""

LEVEL = 0.05
"""The p-value, corrected for many questions, up to which a gain in accuracy counts."""

POINT = 0.01
"""A difference in accuracy that counts: one percentage point."""

TENTH = math.log(1.1)
"""A factor that counts: ten percent, as a difference of logarithms."""

HALF = math.log(1.5)
"""A jump: half as much again, as a difference of logarithms."""


def increases(size: float) -> DecisionRule:
    """Say yes above zero; no if an increase of that size is excluded, and zero is not."""

    def decide(low: float, high: float) -> bool | None:
        if low > 0:
            return True
        return False if high < size else None

    return decide


def does_not_increase(size: float) -> DecisionRule:
    """Say the opposite of `increases`."""

    def decide(low: float, high: float) -> bool | None:
        found = increases(size)(low, high)
        return None if found is None else not found

    return decide


def stays_within(margin: float) -> DecisionRule:
    """Say yes if all of the interval is within the margin around zero; no if all of it is outside."""

    def decide(low: float, high: float) -> bool | None:
        if -margin < low and high < margin:
            return True
        return False if low > margin or high < -margin else None

    return decide


def stays_below(limit: float) -> DecisionRule:
    """Say yes if all of the interval is below the limit; no if all of it is above."""

    def decide(low: float, high: float) -> bool | None:
        if high < limit:
            return True
        return False if low > limit else None

    return decide


def decide(rule: DecisionRule, sample: Sample) -> bool | None:
    """Return the rule's answer; too few seeds, or fewer than planned, cannot tell."""
    return rule(sample.low, sample.high) if len(sample) >= FEWEST_SEEDS and sample.is_complete else None


def seeds_needed(rule: DecisionRule, sample: Sample) -> int | None:
    """Return how many seeds would decide if mean and deviation stayed as they are; None beyond a thousand."""
    if len(sample) < 2:
        return sample.declared or FEWEST_SEEDS
    for count in range(max(FEWEST_SEEDS, sample.declared or 0), MOST_SEEDS + 1):
        half = half_width(sample.deviation, count)
        if rule(sample.mean - half, sample.mean + half) is not None:
            return count
    return None


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values corrected for their number (Holm, 1979), in the same order."""
    corrected = [1.0] * len(p_values)
    largest = 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[index]))
        corrected[index] = largest
    return corrected
