"""Two arms of a comparison, seed by seed: the mean difference, its 95 % interval, and how often which one wins."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import methodcaller
from typing import Any

from feddecorr.results.groups import (
    Cell,
    covers,
    group_by,
    group_runs,
    is_finished,
    refuse_unknown,
    sample_runs,
)
from feddecorr.results.names import ABSENT, columns, is_of_arm
from feddecorr.results.sample import CONFIDENCE, Sample
from feddecorr.results.study import Labels
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
    """Runs that differ in one setting alone: both arms, and every statistic of the differences.

    `labels` are the requested settings and whatever else distinguishes this comparison; `names` are those of the arms,
    `words` what else of the labels a reader must see, by heading.
    """

    labels: Labels
    first: str
    second: str
    names: tuple[str, str]
    words: dict[str, str]
    seeds: tuple[int, ...]
    statistics: dict[str, Sample]

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return {
            "labels": self.labels,
            "first": self.first,
            "second": self.second,
            "names": list(self.names),
            "seeds": list(self.seeds),
            "statistics": {name: difference_numbers(sample) for name, sample in self.statistics.items()},
        }


def difference_numbers(sample: Sample) -> dict[str, Any]:
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

    `by` names settings to show. Nothing is pooled: every combination of other settings is a comparison of its own, in
    the order of these settings. The first of a pair is the run without any, where there is one, else the first in the
    order of the setting.
    """
    if summaries:
        refuse_unknown((*by, pair), summaries)
    finished = list(filter(is_finished, summaries))
    cells = group_runs(finished, by) if finished else []

    def rest(cell: Cell) -> Labels:
        return {key: value for key, value in cell.labels.items() if not covers(pair, key)}

    groups = group_by(cells, lambda cell: tuple(rest(cell).items()))
    return [found for arms in groups.values() for found in _compare_arms(arms, rest(arms[0]), pair, measure)]


def _compare_arms(arms: Sequence[Cell], labels: Labels, pair: str, measure: str) -> Iterator[Comparison]:
    """Compare the first of the cells with each other one."""
    first, *others = arms
    # What is part of an arm's name is in it, and in no column.
    named = [key for key in first.labels if covers(pair, key) or (is_of_arm(pair) and is_of_arm(key))]
    rest = {key: value for key, value in labels.items() if key not in named}
    headings, (cells,) = columns([(rest, first.named(list(rest)))]) if rest else ([], ([],))
    for second in others:
        found = Pair(first.runs, second.runs)
        if found.seeds:
            yield Comparison(
                labels,
                _chosen(first, pair),
                _chosen(second, pair),
                (first.name(named), second.name(named)),
                dict(zip(headings, cells, strict=True)),
                found.seeds,
                found.by_statistic(measure),
            )


def _chosen(cell: Cell, pair: str) -> str:
    """Return what a cell has for a setting, in the words of the settings."""
    own = {key: value for key, value in cell.labels.items() if covers(pair, key) and value != ABSENT}
    return " ".join(str(value) if key == pair else f"{key}={value}" for key, value in own.items())
