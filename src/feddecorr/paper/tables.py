"""What can be made of a study's runs, as tables: mean ± standard deviation over seeds, beside the paper's values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from feddecorr.paper.grid import GridResults
from feddecorr.paper.values import named, published
from feddecorr.results.cells import MISSING, NOT_MEASURED, Cell
from feddecorr.results.local_models import local_ranks
from feddecorr.results.sample import Sample
from feddecorr.results.study import Finding, Label, Table
from feddecorr.results.summary import STATISTICS

Make = Callable[[GridResults], list[Finding]]


def accuracy(paper: str | None = None) -> Make:
    """Make a table of accuracies in percent, by all statistics; `paper` names the table to set beside it."""

    def make(seen: GridResults) -> list[Finding]:
        rows = [
            [
                *map(str, cell.labels.values()),
                cell.count,
                *(cell.text(cell.sample(statistic), factor=100) for statistic in STATISTICS),
                *([_published(paper, seen, cell)] if paper else []),
            ]
            for cell in seen.cells
        ]
        headings = [*_labels(seen.cells), "seeds", *STATISTICS.values(), *(["paper"] if paper else [])]
        return [Table("Accuracy (%)", headings, rows, seen.note)]

    return make


def gains(paper: str | None = None, axis: str = "regularizer", base: Label = "none") -> Make:
    """Make a table of paired differences in accuracy to the runs that have `base`, in percentage points."""

    def make(seen: GridResults) -> list[Finding]:
        rows = []
        for without, cell in pairs(seen.cells, axis, base):
            differences = [cell.sample(statistic).minus(without.sample(statistic)) for statistic in STATISTICS]
            texts = [difference_text(sample.times(100)) for sample in differences]
            whole = without.runs and cell.runs
            theirs = [_published_gain(paper, seen, (without, cell))] if paper else []
            rows.append([*map(str, cell.labels.values()), *(texts if whole else [MISSING] * len(STATISTICS)), *theirs])
        headings = [*_labels(seen.cells), *STATISTICS.values(), *(["paper"] if paper else [])]
        note = "Mean over the seeds that both have, [95 % interval by Student's t], in how many seeds it is positive."
        return [Table(f"Difference to {axis} {base} (percentage points)", headings, rows, note)]

    return make


def ranks(seen: GridResults) -> list[Finding]:
    """Make a table of how many dimensions the representations use, of global and of local models."""
    rows = [
        [
            *map(str, cell.labels.values()),
            cell.count,
            cell.text(cell.sample("last", "effective_rank"), 1),
            cell.text(cell.sample("last", "significant_singular_values"), 1),
            cell.text(cell.sample("last", "dimensions"), 0).partition(" ±")[0],
            cell.text(local_ranks(cell), 1),
        ]
        for cell in seen.cells
    ]
    headings = [*_labels(seen.cells), "seeds", "effective rank", "significant singular values", "of", "local models"]
    note = (
        f"Of the global model after the last round; local models: mean effective rank of the clients' models before "
        f"they were averaged. {seen.note}"
    )
    return [Table("Dimensions in use", headings, rows, note)]


def pairs(cells: Sequence[Cell], axis: str, base: Label) -> Iterator[tuple[Cell, Cell]]:
    """Yield each cell with the one that differs from it only in having `base` on that axis."""
    bases = {_rest(cell, axis): cell for cell in cells if cell.labels[axis] == base}
    for cell in cells:
        if cell.labels[axis] != base and _rest(cell, axis) in bases:
            yield bases[_rest(cell, axis)], cell


def difference_text(sample: Sample) -> str:
    """Return mean, interval and wins as a cell of a table."""
    if not sample.values:
        return NOT_MEASURED
    wins = f"{sample.wins} of {len(sample)}"
    if len(sample) == 1:
        return f"{sample.mean:+.2f}, {wins}"
    return f"{sample.mean:+.2f} [{sample.low:+.2f}, {sample.high:+.2f}], {wins}"


def _rest(cell: Cell, axis: str) -> tuple[tuple[str, object], ...]:
    return tuple((name, value) for name, value in cell.labels.items() if name != axis)


def _labels(cells: Sequence[Cell]) -> list[str]:
    return list(cells[0].labels) if cells else []


def _published(paper: str, seen: GridResults, cell: Cell) -> str:
    found = published(paper, cell.labels, seen.paper_data)
    return ", ".join(named(value.text(), value, cell.labels) for value in found) or NOT_MEASURED


def _published_gain(paper: str, seen: GridResults, pair: tuple[Cell, Cell]) -> str:
    before, after = (published(paper, cell.labels, seen.paper_data) for cell in pair)
    known = {value.labels["data"]: value.mean for value in before}
    texts = [
        named(f"{value.mean - known[value.labels['data']]:+.2f}", value, pair[1].labels)
        for value in after
        if value.labels["data"] in known
    ]
    return ", ".join(texts) or NOT_MEASURED
