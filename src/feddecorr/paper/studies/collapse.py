"""Spectra and spheres of representations, which heterogeneity collapses, and the FedDecorr loss in local training."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import plotly.graph_objects as go

from feddecorr.paper.figures import all_client_spectra, client_spectra, figure, spectra
from feddecorr.paper.grid import Grid, GridResults, vary
from feddecorr.paper.studies.accuracy import BOTH
from feddecorr.paper.tables import ranks
from feddecorr.report.diagnosis_page import sphere
from feddecorr.report.picture import Series
from feddecorr.results.groups import MISSING, Cell
from feddecorr.results.names import name_arm
from feddecorr.results.study import Figure, Finding, Labels, Table
from feddecorr.results.summary import Summary
from feddecorr.runs.diagnosis import Wanted, examine
from feddecorr.runs.directory import RunDirectory

ALPHAS = (0.01, 0.05, 0.25, "inf")


COLLAPSE = Grid(
    name="collapse",
    shows="spectra of global models for different alpha",
    place="figure 2a",
    settings="evaluation.clients=last",
    axes=vary("cifar100", regularizer=("none",), alpha=ALPHAS),
    makes=(spectra(panels=("data",)), ranks),
)
"""Global models of FedAvg; the local ones are recorded too, so that the other studies can share the runs."""


COLLAPSE_METHODS = Grid(
    name="collapse-methods",
    shows="spectra of global models of other methods",
    place="figure 7",
    axes=vary("cifar100", method=("fedavgm", "fedprox", "moon"), alpha=ALPHAS),
    makes=(spectra(panels=("data", "method")), ranks),
)
"""It is not FedAvg alone."""


COLLAPSE_MODELS = Grid(
    name="collapse-models",
    shows="spectra of global models of other networks",
    place="figure 8",
    axes=vary("cifar100", model=("resnet32", "resnet18"), alpha=ALPHAS),
    makes=(spectra(panels=("data", "model")), ranks),
)
"""It is not MobileNetV2 alone."""


COLLAPSE_DATA = Grid(
    name="collapse-data",
    shows="spectra of global models on other data sets",
    place="figure 9",
    axes=vary("cifar10", "tinyimagenet", alpha=ALPHAS),
    makes=(spectra(panels=("data",)), ranks),
)
"""It is not CIFAR-100 alone."""


COLLAPSE_LOCAL = replace(
    COLLAPSE,
    name="collapse-local",
    shows="spectra of local models for different alpha",
    place="figures 2b and 10",
    makes=(client_spectra(panels=("data",)), all_client_spectra(panels=("data",)), ranks),
)
"""The clients' models before they are averaged, of the last round: the first client, and all of them."""


MITIGATION = Grid(
    name="mitigation",
    shows="spectra without and with FedDecorr",
    place="figure 3",
    settings="evaluation.clients=last",
    axes=vary("cifar100", regularizer=BOTH, alpha=(0.01, 0.05)),
    makes=(
        client_spectra(panels=("data", "alpha")),
        all_client_spectra(panels=("data", "alpha")),
        spectra(panels=("data", "alpha")),
        ranks,
    ),
)
"""Local and global models, without and with FedDecorr, under strong heterogeneity."""


NOTE = "Test images, along the three strongest directions of their representations, scaled to length one."
NO_MODEL = "Missing: it is drawn from the run's model, which is not here."


def draw(directory: Path) -> go.Figure:
    """Draw the sphere of a run's last model."""
    found = examine(RunDirectory.open(directory), Wanted(), directory.name, lambda _: None)
    return sphere(found.diagnoses[0])


def spheres(results: GridResults) -> list[Finding]:
    """Make a figure for each run of the first seed; it needs the models themselves, which records do not keep."""
    return [
        Figure(_title(result.labels), partial(draw, result.directory), NOTE)
        if result.summary and result.directory
        else Figure(_title(result.labels), go.Figure, NO_MODEL)
        for result in results.results
        if result.labels["seed"] == 0
    ]


def _title(labels: Labels) -> str:
    return name_arm({"alpha": labels["alpha"]}).whole + (", FedDecorr" if labels["regularizer"] == "feddecorr" else "")


def leaves_homogeneous_alone(labels: Labels) -> bool:
    """Return whether to run it: homogeneous data need no cure."""
    return labels["alpha"] != "inf" or labels["regularizer"] == "none"


SPHERE = Grid(
    name="sphere",
    shows="representations on the unit sphere",
    place="figure 1",
    axes=vary("cifar10", model=("resnet20",), regularizer=BOTH, alpha=("inf", 0.05)),
    makes=(spheres, ranks),
    wants=leaves_homogeneous_alone,
)
"""Homogeneous, heterogeneous, and heterogeneous with FedDecorr."""


TERM = "feddecorr"


def term_by_epoch(run: Summary) -> dict[str, list[float]]:
    """Return the term by local epoch for each client, in the order of their ids."""
    clients = sorted(run.local_terms, key=int)
    return {client: run.local_terms[client][TERM] for client in clients if TERM in run.local_terms[client]}


def draw_clients(results: GridResults) -> list[Finding]:
    """Make a figure with a line for each client for each run of the first seed, and a table of all."""
    found: list[Finding] = []
    rows = []
    for cell in results.cells:
        first = term_by_epoch(next(iter(cell.runs.values()))) if cell.runs else {}
        lines = [Series(range(1, len(each) + 1), each, name=f"client {client}") for client, each in first.items()]
        note = "" if lines else "Missing: no run has recorded its terms by local epoch."
        axes = ("local epoch", "β · L_FedDecorr")
        found.append(figure(f"First seed: {cell.name(['alpha'])}", axes, lines, note))
        rows += _rows(cell)
    headings = ["data", "alpha", "seed", "client", "first epoch", "last epoch", "largest rise"]
    return [*found, Table("First and last epoch by client", headings, rows, results.note)]


def largest_rise(values: list[float]) -> float:
    """Return the largest factor from one epoch to the next."""
    return max((after / before for before, after in pairwise(values)), default=1.0)


def _rows(cell: Cell) -> list[list[str]]:
    which = [str(cell.labels[name]) for name in ("data", "alpha")]
    found = [
        [*which, str(seed), client, f"{values[0]:.4f}", f"{values[-1]:.4f}", f"×{largest_rise(values):.2f}"]
        for seed, run in cell.runs.items()
        for client, values in term_by_epoch(run).items()
    ]
    return found or [[*which, *[MISSING] * 5]]


STABILITY = Grid(
    name="stability",
    shows="the FedDecorr loss within ten local epochs",
    place="figure 11",
    settings="rounds=1 training.epochs=10 evaluation.epochs=true",
    axes=vary("cifar10", regularizer=("feddecorr",), alpha=(0.5,)),
    makes=(draw_clients,),
)
"""One round from the first weights, ten local epochs, all clients."""
