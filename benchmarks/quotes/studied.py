"""The studies' own tables, of the runs that are recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from benchmarks.quotes.pairs import summaries
from benchmarks.quotes.records import table
from feddecorr.studies.lookup import find_studies
from feddecorr.studies.results import results_of_records
from feddecorr.studies.study import Table


@cache
def _tables(study: str, scale: str) -> dict[str, Table]:
    """Return the tables of a study at a scale by their titles, as far as their runs are recorded."""
    (found,) = find_studies(study)
    seeds = max(summary.experiment["seed"] for summary in summaries()) + 1
    results = results_of_records(found.arms(scale, seeds), summaries())
    kept = [result for result in results if result.summary]
    return {each.title: each for each in found.findings(kept, scale) if isinstance(each, Table)} if kept else {}


def part_of(
    study: str, title: str, words: Sequence[str], numbers: Sequence[str], scale: str = "small"
) -> Callable[[], str]:
    """Return what writes some columns of a study's table, those of words first; or that nothing is recorded."""

    def write() -> str:
        found = _tables(study, scale).get(title)
        if found is None:
            return "Nothing is recorded yet."
        head = [*words, *numbers]
        places = [found.headings.index(heading) for heading in head]
        return table(head, [[row[place] for place in places] for row in found.rows], words=len(words))

    return write


def gains(study: str, *words: str, scale: str, base: str = "regularizer none") -> Callable[[], str]:
    """Return what writes the differences to the runs without a regularizer, or to others, by these settings."""
    title = f"Difference to {base} (percentage points)"
    return part_of(study, title, words, ["mean of the last ten", "last round", "best round"], scale)
