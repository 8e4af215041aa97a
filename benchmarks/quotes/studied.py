"""The studies' own tables, of the runs that are recorded."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from benchmarks.quotes.pairs import interval, summaries
from benchmarks.quotes.records import table
from feddecorr.studies.lookup import find_studies
from feddecorr.studies.results import results_of_records
from feddecorr.studies.sample import Sample
from feddecorr.studies.study import Result, Table
from feddecorr.studies.summary import Summary


@cache
def _recorded(study: str, scale: str) -> list[Result]:
    """Return what the records hold of a study at a scale."""
    (found,) = find_studies(study)
    seeds = max(summary.experiment["seed"] for summary in summaries()) + 1
    results = results_of_records(found.arms(scale, seeds), summaries())
    return [result for result in results if result.summary]


@cache
def _tables(study: str, scale: str) -> dict[str, Table]:
    """Return the tables of a study at a scale by their titles, as far as their runs are recorded."""
    (found,) = find_studies(study)
    kept = _recorded(study, scale)
    return {each.title: each for each in found.findings(kept, scale) if isinstance(each, Table)} if kept else {}


def part_of(
    study: str, words: Sequence[str], numbers: Mapping[str, Sequence[str]], scale: str = "small"
) -> Callable[[], str]:
    """Return what writes some columns of a study's tables, those of words first; or that nothing is recorded.

    `numbers` are the columns by the tables' titles. The first of these tables says which rows there are.
    """

    def write() -> str:
        found = _tables(study, scale)
        if not found.keys() >= numbers.keys():
            return "Nothing is recorded yet."
        columns = [_columns(found[title], words, headings) for title, headings in numbers.items()]
        head = [*words, *(heading for headings in numbers.values() for heading in headings)]
        rows = [[*key, *(cell for column in columns for cell in column[key])] for key in columns[0]]
        return table(head, rows, words=len(words))

    return write


def _columns(found: Table, words: Sequence[str], headings: Sequence[str]) -> dict[tuple[str, ...], list[str]]:
    """Return the cells under some headings, by those under the words."""
    rows = [dict(zip(found.headings, row, strict=True)) for row in found.rows]
    return {tuple(row[word] for word in words): [row[heading] for heading in headings] for row in rows}


def gains(study: str, *words: str, scale: str, base: str = "regularizer none") -> Callable[[], str]:
    """Return what writes the differences to the runs without a regularizer, or to others, by these settings."""
    title = f"Difference to {base} (percentage points)"
    return part_of(study, words, {title: ["mean of the last ten", "last round", "best round"]}, scale)


def without_and_with(study: str, *words: str, scale: str) -> Callable[[], str]:
    """Return what writes accuracy and rank without → with FedDecorr, and the gain, by these settings."""

    def write() -> str:
        found: dict[tuple[str, ...], dict[str, dict[int, Summary]]] = {}
        for labels, run in ((result.labels, result.summary) for result in _recorded(study, scale)):
            if run is not None:
                arms = found.setdefault(tuple(str(labels[word]) for word in words), {"none": {}, "feddecorr": {}})
                arms[str(labels["regularizer"])][run.experiment["seed"]] = run
        rows = [[*key, *_compared(arms["none"], arms["feddecorr"])] for key, arms in found.items()]
        return table([*words, "seeds", "accuracy (%)", "gain", "effective rank"], rows, words=len(words))

    return write


def _compared(without: Mapping[int, Summary], beside: Mapping[int, Summary]) -> list[str]:
    both = without.keys() & beside.keys()
    pairs = [{seed: arm[seed] for seed in both} for arm in (without, beside)]
    right, ranks = (
        [Sample({seed: run.statistic("last_ten", of) or math.nan for seed, run in arm.items()}) for arm in pairs]
        for of in ("accuracy", "effective_rank")
    )
    return [str(len(both)), _arrow(right, 100), interval(right[1].minus(right[0])), _arrow(ranks)]


def _arrow(arms: Sequence[Sample], factor: float = 1.0) -> str:
    return " → ".join(f"{arm.times(factor).mean:.1f}" for arm in arms)
