"""Two arms of a comparison, seed by seed: the mean difference, its 95 % interval, and how often which one wins."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import methodcaller
from typing import Any

from feddecorr.config.overrides import flatten
from feddecorr.results.groups import (
    by_seed,
    context,
    covers,
    differing,
    group_by,
    is_finished,
    refuse_unknown,
    sample_runs,
)
from feddecorr.results.sample import CONFIDENCE, Sample
from feddecorr.results.summary import STATISTICS, Summary


@dataclass(frozen=True)
class Pair:
    """The runs of two arms by seed; `declared` is how many seeds were planned, if that is known."""

    first: Mapping[int, Summary]
    second: Mapping[int, Summary]
    declared: int | None = None

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that both arms have."""
        return tuple(sorted(self.first.keys() & self.second.keys()))

    def difference(self, of: Callable[[Summary], float | None]) -> Sample:
        """Return a number of the second minus the same of the first, over the seeds that have both."""
        return replace(sample_runs(self.second, of).minus(sample_runs(self.first, of)), declared=self.declared)

    def by_statistic(self, measure: str = "accuracy") -> dict[str, Sample]:
        """Return the differences in a measure by each of the statistics."""
        return {name: self.difference(methodcaller("statistic", name, measure)) for name in STATISTICS}


@dataclass(frozen=True)
class Comparison:
    """Runs that differ in one setting alone: what they have in common, both values, and every statistic.

    `labels` are the settings that were asked for and whatever else tells this comparison from the others.
    """

    labels: dict[str, str]
    first: str
    second: str
    seeds: tuple[int, ...]
    statistics: dict[str, Sample]

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return {
            "labels": self.labels,
            "first": self.first,
            "second": self.second,
            "seeds": list(self.seeds),
            "statistics": {name: _numbers(sample) for name, sample in self.statistics.items()},
        }


def _numbers(sample: Sample) -> dict[str, Any]:
    """Return the numbers of a sample of differences; those that are not known are null."""
    known = {name: getattr(sample, name) for name in ("mean", "low", "high")}
    return {
        **{name: value if math.isfinite(value) else None for name, value in known.items()},
        "wins": sample.wins,
        "seeds": len(sample),
        "method": "t",
        "confidence": CONFIDENCE,
    }


def compare_runs(
    summaries: Sequence[Summary], *, by: Sequence[str], pair: str, measure: str = "accuracy"
) -> list[Comparison]:
    """Compare finished runs that are equal in all settings but `pair` (and the seed), seed by seed.

    `by` names settings to show. Nothing is pooled: every combination of other settings is a comparison of its own.
    The first of a pair is the run without any, where there is one, else the first in the order of their words.
    """
    if summaries:
        refuse_unknown((*by, pair), summaries)
    groups = group_by(filter(is_finished, summaries), lambda run: context(run, [pair]))
    told = [key for key in differing(groups) if not any(covers(name, key) for name in by)]
    return [found for runs in groups.values() for found in _compare_arms(runs, [*by, *told], pair, measure)]


def _compare_arms(runs: Sequence[Summary], names: Sequence[str], pair: str, measure: str) -> Iterator[Comparison]:
    arms = group_by(runs, lambda run: _chosen(run, pair))
    first, *others = sorted(arms, key=lambda value: (value != "none", value))
    for second in others:
        found = Pair(by_seed(arms[first]), by_seed(arms[second]))
        if found.seeds:
            labels = {name: _chosen(found.first[found.seeds[0]], name) for name in names}
            yield Comparison(labels, first, second, found.seeds, found.by_statistic(measure))


def _chosen(summary: Summary, name: str) -> str:
    """Return what a run has for a setting, in few words: the kind's name and its options, or the value."""
    value = summary.settings.get(name)
    if value is None:
        value = flatten(summary.settings).get(name, "–")
    if not isinstance(value, Mapping):
        return str(value)
    kind = [str(value["name"])] if "name" in value else []
    options = [f"{key}={option}" for key, option in flatten(value).items() if not kind or key != "name"]
    return " ".join([*kind, *options]) or "none"
