"""How the FedDecorr loss goes within the local epochs of one round, client by client."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

from feddecorr.paper.grid import Grid, Seen
from feddecorr.report import figures
from feddecorr.results.cells import MISSING, Cell
from feddecorr.results.curves import Band
from feddecorr.results.study import Figure, Finding, Table
from feddecorr.results.summary import Summary

TERM = "feddecorr"


def curves(run: Summary) -> dict[str, list[float]]:
    """Return the term by local epoch for each client, in the order of their ids."""
    clients = sorted(run.local_terms, key=int)
    return {client: run.local_terms[client][TERM] for client in clients if TERM in run.local_terms[client]}


def draw_clients(seen: Seen) -> list[Finding]:
    """Make a figure with a line for each client for each run of the first seed, and a table of all."""
    found: list[Finding] = []
    rows = []
    for cell in seen.cells:
        first = curves(next(iter(cell.runs.values()))) if cell.runs else {}
        lines = {f"client {client}": _line(values) for client, values in first.items()}
        note = "" if lines else "Missing: no run has recorded its terms by local epoch."
        draw = partial(figures.bands, lines, "local epoch", "β · L_FedDecorr")
        found.append(Figure(f"First seed: alpha {cell.labels['alpha']}", draw, note))
        rows += _rows(cell)
    headings = ["data", "alpha", "seed", "client", "first epoch", "last epoch", "largest rise"]
    return [*found, Table("First and last epoch by client", headings, rows, seen.note)]


def largest_rise(values: list[float]) -> float:
    """Return the largest factor from one epoch to the next."""
    return max((after / before for before, after in pairwise(values)), default=1.0)


def _line(values: list[float]) -> Band:
    return list(range(1, len(values) + 1)), values, [0.0] * len(values)


def _rows(cell: Cell) -> list[list[str]]:
    which = [str(cell.labels[name]) for name in ("data", "alpha")]
    found = [
        [*which, str(seed), client, f"{values[0]:.4f}", f"{values[-1]:.4f}", f"×{largest_rise(values):.2f}"]
        for seed, run in cell.runs.items()
        for client, values in curves(run).items()
    ]
    return found or [[*which, *[MISSING] * 5]]


STABILITY = Grid(
    name="stability",
    shows="the FedDecorr loss within ten local epochs",
    place="figure 11",
    settings="rounds=1 training.epochs=10 evaluation.epochs=true",
    axes={"data": ("cifar10",), "method": ("fedavg",), "regularizer": ("feddecorr",), "alpha": (0.5,)},
    makes=(draw_clients,),
)
"""One round from the first weights, ten local epochs, all clients."""
