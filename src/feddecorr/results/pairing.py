"""Two arms of a comparison, seed by seed: mean difference, its 95 % interval, and how often which one wins."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from feddecorr.config.overrides import flatten
from feddecorr.errors import UserError
from feddecorr.results.contexts import Context, by_seed, chosen, context, covers, differing, is_finished
from feddecorr.results.sample import CONFIDENCE, Sample
from feddecorr.results.summary import STATISTICS, Summary


@dataclass(frozen=True)
class Paired:
    """The mean of second minus first, its interval by Student's t, and in how many seeds second was larger.

    With one seed nothing is known of the spread, and the interval is without end.
    """

    mean: float
    low: float
    high: float
    wins: int
    seeds: int
    method: str = "t"
    confidence: float = CONFIDENCE

    @classmethod
    def of(cls, differences: Sample) -> Paired:
        """Take the differences by seed."""
        return cls(differences.mean, differences.low, differences.high, differences.wins, len(differences))

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON; ends that are not known are null."""
        known = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value if _is_known(value) else None for name, value in known.items()}


def _is_known(value: object) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def compare_pairs(first: Sequence[float], second: Sequence[float]) -> Paired:
    """Compare values of the same seeds, in the same order."""
    differences = [theirs - ours for ours, theirs in zip(first, second, strict=True)]
    return Paired.of(Sample(dict(enumerate(differences))))


@dataclass(frozen=True)
class Comparison:
    """Runs that differ in one setting alone: what they have in common, both values, and every statistic.

    `labels` are the settings that were asked for and whatever else tells this comparison from the others.
    """

    labels: dict[str, str]
    first: str
    second: str
    seeds: tuple[int, ...]
    statistics: dict[str, Paired]

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        found = {name: paired.to_dict() for name, paired in self.statistics.items()}
        return {
            "labels": self.labels,
            "first": self.first,
            "second": self.second,
            "seeds": list(self.seeds),
            "statistics": found,
        }


def compare_runs(
    summaries: Sequence[Summary], *, by: Sequence[str], pair: str, measure: str = "accuracy"
) -> list[Comparison]:
    """Compare finished runs that are equal in all settings but `pair` (and the seed), seed by seed.

    `by` names settings to show. Nothing is pooled: every combination of other settings is a comparison of its own.
    The first of a pair is the run without any, where there is one, else the first in the order of their words.
    """
    for name in (*by, pair):
        if summaries and not any(covers(name, key) for run in summaries for key in flatten(run.settings)):
            raise UserError(f"no run has a setting '{name}': choose one such as method, regularizers, partition.alpha")
    groups: dict[Context, dict[str, list[Summary]]] = {}
    for run in filter(is_finished, summaries):
        groups.setdefault(context(run, [pair]), {}).setdefault(chosen(run, pair), []).append(run)
    told = [key for key in differing(groups) if not any(covers(name, key) for name in by)]
    return [found for arms in groups.values() for found in _compare_arms(arms, [*by, *told], measure)]


def _compare_arms(arms: dict[str, list[Summary]], names: Sequence[str], measure: str) -> Iterator[Comparison]:
    first, *others = sorted(arms, key=lambda value: (value != "none", value))
    base = by_seed(arms[first])
    for second in others:
        other = by_seed(arms[second])
        seeds = tuple(sorted(base.keys() & other.keys()))
        if not seeds:
            continue
        labels = {name: chosen(base[seeds[0]], name) for name in names}
        paired = {name: Paired.of(_differences(base, other, name, measure)) for name in STATISTICS}
        yield Comparison(labels, first, second, seeds, paired)


def _differences(base: dict[int, Summary], other: dict[int, Summary], statistic: str, measure: str) -> Sample:
    values = [
        {seed: value for seed, run in runs.items() if (value := run.statistic(statistic, measure)) is not None}
        for runs in (base, other)
    ]
    return Sample(values[1]).minus(Sample(values[0]))
