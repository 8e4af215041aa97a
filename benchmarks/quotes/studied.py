"""The studies' own tables, of the runs that are recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from benchmarks.quotes.pairs import arrow, interval, summaries
from benchmarks.quotes.records import table
from feddecorr.paper.studies import find_studies
from feddecorr.results.groups import Cell, gather
from feddecorr.results.names import is_of_arm, shown, symbol
from feddecorr.results.study import Label, Result, Table
from feddecorr.results.summary import STATISTICS
from feddecorr.sweeps.jobs import results_of_records


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
        heads = list(dict.fromkeys("method" if is_of_arm(word) else symbol(word) for word in words))
        columns = [_columns(found[title], heads, headings) for title, headings in numbers.items()]
        head = [*heads, *(heading for headings in numbers.values() for heading in headings)]
        rows = [[*key, *(cell for column in columns for cell in column[key])] for key in columns[0]]
        return table(head, rows, words=len(heads))

    return write


def _columns(found: Table, words: Sequence[str], headings: Sequence[str]) -> dict[tuple[str, ...], list[str]]:
    """Return the cells under some headings, by those under the words."""
    rows = [dict(zip(found.headings, row, strict=True)) for row in found.rows]
    return {tuple(row[word] for word in words): [row[heading] for heading in headings] for row in rows}


def gains(study: str, *words: str, scale: str, base: str = "regularizer none") -> Callable[[], str]:
    """Return what writes the differences to the runs without a regularizer, or to others, by these settings."""
    title = f"Difference to {base} (percentage points)"
    return part_of(study, words, {title: list(STATISTICS.values())}, scale)


def without_and_with(study: str, *words: str, scale: str) -> Callable[[], str]:
    """Return what writes accuracy and rank without → with FedDecorr, and the gain, by these settings."""

    def write() -> str:
        found: dict[tuple[str, ...], dict[Label, Cell]] = {}
        for cell in gather(_recorded(study, scale)):
            key = tuple(shown(word, cell.labels[word]) for word in words)
            found.setdefault(key, {})[cell.labels["regularizer"]] = cell
        rows = [[*key, *_compared(arms["none"], arms["feddecorr"])] for key, arms in found.items() if len(arms) > 1]
        return table([*map(symbol, words), "seeds", "accuracy (%)", "gain", "effective rank"], rows, words=len(words))

    return write


def _compared(*arms: Cell) -> list[str]:
    """Compare two arms, over the seeds that both have."""
    without, decorrelated = (cell.runs.keys() for cell in arms)
    both = [replace(cell, runs={seed: cell.runs[seed] for seed in without & decorrelated}) for cell in arms]
    right = [cell.sample("last") for cell in both]
    ranks = [cell.sample("last", "effective_rank") for cell in both]
    return [str(len(both[0].runs)), arrow(right, 100), interval(right[1].minus(right[0])), arrow(ranks)]
