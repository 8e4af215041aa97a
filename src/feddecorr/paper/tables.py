"""Tables of a study's runs: mean ± standard deviation over seeds, with the paper's values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from feddecorr.paper.grid import GridResults
from feddecorr.paper.values import named, published
from feddecorr.results.curves import local_ranks
from feddecorr.results.groups import MISSING, NOT_MEASURED, Cell
from feddecorr.results.names import columns as named_columns
from feddecorr.results.pairing import Pair
from feddecorr.results.sample import Sample
from feddecorr.results.study import Finding, Label, Table
from feddecorr.results.summary import STATISTICS

Make = Callable[[GridResults], list[Finding]]

Columns = Mapping[str, Callable[[Cell], str]]
"""The columns of a table by heading, each with the text of a cell."""


def tabulate(title: str, cells: Sequence[Cell], columns: Columns, note: str) -> Table:
    """Return a row for each cell: its labels, its number of seeds, and the columns."""
    headings, labels = _labels(cells)
    rows = [
        [*words, cell.count, *(text(cell) for text in columns.values())]
        for words, cell in zip(labels, cells, strict=True)
    ]
    return Table(title, [*headings, "seeds", *columns], rows, note)


def measured(
    statistic: str, measure: str = "accuracy", digits: int = 2, *, factor: float = 1.0
) -> Callable[[Cell], str]:
    """Return the text of a measure of the global models, by a statistic of their rounds."""
    return lambda cell: cell.text(cell.sample(statistic, measure), digits, factor=factor)


def dimensions(cell: Cell) -> str:
    """Return how many dimensions the representation has: the same for all seeds."""
    return cell.text(cell.sample("last", "dimensions"), 0).partition(" ±")[0]


def accuracy(paper: str | None = None) -> Make:
    """Make a table of accuracies in percent, by all statistics; `paper` names the paper's table to compare with."""

    def make(results: GridResults) -> list[Finding]:
        columns = {text: measured(name, factor=100) for name, text in STATISTICS.items()}
        theirs: Columns = {"paper": lambda cell: _published(paper, results, cell)} if paper else {}
        return [tabulate("Accuracy (%)", results.cells, {**columns, **theirs}, results.note)]

    return make


def gains(paper: str | None = None, axis: str = "regularizer", base: Label = "none") -> Make:
    """Make a table of paired differences in accuracy to the runs that have `base`, in percentage points."""

    def make(results: GridResults) -> list[Finding]:
        rows = []
        compared = list(pairs(results.cells, axis, base))
        labels, words = _labels([cell for _, cell in compared])
        for own, (without, cell) in zip(words, compared, strict=True):
            differences = Pair(without.runs, cell.runs).by_statistic()
            texts = [difference_text(sample.times(100)) for sample in differences.values()]
            whole = without.runs and cell.runs
            theirs = [_published_gain(paper, results, (without, cell))] if paper else []
            rows.append([*own, *(texts if whole else [MISSING] * len(STATISTICS)), *theirs])
        headings = [*labels, *STATISTICS.values(), *(["paper"] if paper else [])]
        note = "Mean over the seeds that both have, [95 % interval by Student's t], in how many seeds it is positive."
        return [Table(f"Difference to {axis} {base} (percentage points)", headings, rows, note)]

    return make


def ranks(results: GridResults) -> list[Finding]:
    """Make a table of how many dimensions the representations use, of global and of local models."""
    columns: Columns = {
        "effective rank": measured("last", "effective_rank", 1),
        "significant singular values": measured("last", "significant_singular_values", 1),
        "of": dimensions,
        "local models": lambda cell: cell.text(local_ranks(cell), 1),
    }
    note = (
        f"Of the global model after the last round; local models: mean effective rank of the clients' models before "
        f"they were averaged. {results.note}"
    )
    return [tabulate("Dimensions in use", results.cells, columns, note)]


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


def _labels(cells: Sequence[Cell]) -> tuple[list[str], list[list[str]]]:
    """Return the headings and cells of the labels, as a reader sees them."""
    return named_columns([(cell.labels, cell.named()) for cell in cells])


def _published(paper: str, results: GridResults, cell: Cell) -> str:
    found = published(paper, cell.labels, results.paper_data)
    return ", ".join(named(value.text(), value, cell.labels) for value in found) or NOT_MEASURED


def _published_gain(paper: str, results: GridResults, pair: tuple[Cell, Cell]) -> str:
    before, after = (published(paper, cell.labels, results.paper_data) for cell in pair)
    known = {value.labels["data"]: value.mean for value in before}
    texts = [
        named(f"{value.mean - known[value.labels['data']]:+.2f}", value, pair[1].labels)
        for value in after
        if value.labels["data"] in known
    ]
    return ", ".join(texts) or NOT_MEASURED
