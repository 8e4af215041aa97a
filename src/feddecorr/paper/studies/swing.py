"""How accuracy swings from round to round, by what becomes of BatchNorm's statistics."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean

from feddecorr.paper.drawings import per_round
from feddecorr.paper.grid import Grid, Seen
from feddecorr.paper.studies.accuracy import BOTH
from feddecorr.paper.tables import accuracy, gains, ranks
from feddecorr.results.cells import Cell
from feddecorr.results.sample import Sample
from feddecorr.results.study import Finding, Table
from feddecorr.results.summary import Summary

STEPS = 10
"""Of how many steps from one evaluated round to the next, the last ones of a run, the mean is taken."""


def mean_swing(run: Summary) -> float | None:
    """Return by how much accuracy changes from one evaluated round to the next, on the average of the last steps."""
    values = [line["model"]["accuracy"] for line in run.rounds if line["model"]]
    steps = [abs(after - before) for before, after in pairwise(values)][-STEPS:]
    return fmean(steps) if steps else None


def tabulate(seen: Seen) -> list[Finding]:
    """Make a table of swings, in percentage points, beside how far the best round is above the last ones."""
    rows = [
        [*map(str, cell.labels.values()), cell.count, cell.text(_swings(cell), factor=100), cell.text(_lucky(cell))]
        for cell in seen.cells
    ]
    headings = [
        *(seen.cells[0].labels if seen.cells else ()),
        "seeds",
        "change from round to round",
        "best above the last ten",
    ]
    note = (
        f"Percentage points: the mean absolute change of accuracy over the last {STEPS} steps from one evaluated round "
        f"to the next, and by how much the best round is above the mean of the last ten. {seen.note}"
    )
    return [Table("Swing of the accuracy", headings, rows, note)]


def _swings(cell: Cell) -> Sample:
    found = {seed: mean_swing(run) for seed, run in cell.runs.items()}
    return Sample({seed: value for seed, value in found.items() if value is not None})


def _lucky(cell: Cell) -> Sample:
    return cell.sample("best").minus(cell.sample("last_ten")).times(100)


SWING = Grid(
    name="swing",
    shows="how accuracy swings from round to round, by what becomes of BatchNorm's statistics",
    place="beyond the paper",
    axes={
        "data": ("cifar10",),
        "method": ("fedavg",),
        "statistics": ("average", "pooled", "fixed", "local", "none"),
        "regularizer": BOTH,
        "alpha": (0.05,),
    },
    makes=(
        tabulate,
        accuracy(),
        gains(axis="statistics", base="average"),
        ranks,
        per_round("accuracy", panels=("data", "alpha", "regularizer"), what="accuracy"),
    ),
)
"""Averaged, pooled, fixed after half of the rounds, each client's own; without any, networks have GroupNorm."""
