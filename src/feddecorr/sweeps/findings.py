"""What a sweep comes to: a table of all combinations, and their accuracy per round."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from feddecorr.report.figures import over_rounds
from feddecorr.results.groups import Cell, gather
from feddecorr.results.study import Figure, Finding, Result, Table
from feddecorr.results.summary import STATISTICS

MOST_LINES = 16
"""More lines than this are not to be told apart in a figure."""

NOTE = (
    "Accuracy of the global model after the last evaluated round, as the mean of the last ten, and of the best; mean "
    "± standard deviation over the seeds. The effective rank is that after the last."
)


def sweep_findings(results: Sequence[Result], axes: Sequence[str]) -> list[Finding]:
    """Return mean ± standard deviation over the seeds for each combination, and a line for each if they are few."""
    cells = gather(results)
    headings = [*axes, "seeds", *(name.replace("_", " ") for name in STATISTICS), "effective rank"]
    found: list[Finding] = [Table("All combinations", headings, [_row(cell, axes) for cell in cells], NOTE)]
    lines = {" ".join(map(str, cell.labels.values())) or "all": _curve(cell) for cell in cells if cell.runs}
    if 0 < len(lines) <= MOST_LINES:
        found.append(_accuracy(lines))
    return found


def _row(cell: Cell, axes: Sequence[str]) -> list[str]:
    return [
        *(str(cell.labels[axis]) for axis in axes),
        cell.count,
        *(cell.text(cell.sample(name), 4) for name in STATISTICS),
        cell.text(cell.sample("last", "effective_rank"), 1),
    ]


def _accuracy(lines: Mapping[str, list[tuple[int, float]]]) -> Figure:
    return Figure(
        "Accuracy per round",
        lambda: over_rounds(lines, "accuracy"),
        "Accuracy of the global model, mean over the seeds.",
    )


def _curve(cell: Cell) -> list[tuple[int, float]]:
    """Return the mean accuracy over the seeds, after each round that is evaluated in all of them."""
    values: dict[int, list[float]] = {}
    for run in cell.runs.values():
        for line in run.rounds:
            if line["model"]:
                values.setdefault(line["round"], []).append(line["model"]["accuracy"])
    return [(now, math.fsum(found) / len(found)) for now, found in values.items() if len(found) == len(cell.runs)]
