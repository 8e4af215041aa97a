"""Representations on the unit sphere, as in the paper's first figure."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import plotly.graph_objects as go

from feddecorr.paper.grid import Grid, Seen
from feddecorr.paper.studies.accuracy import BOTH
from feddecorr.paper.tables import ranks
from feddecorr.report.diagnosis_page import sphere
from feddecorr.results.study import Figure, Finding, Labels
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.evaluator_inputs import Wanted
from feddecorr.runs.round_diagnosis import examine

NOTE = "Test images, along the three strongest directions of their representations, scaled to length one."
MISSING = "Missing: it is drawn from the run's model, which is not here."


def draw(directory: Path) -> go.Figure:
    """Draw the sphere of a run's last model."""
    found = examine(RunDirectory.open(directory), Wanted(), directory.name, lambda _: None)
    return sphere(found.diagnoses[0])


def spheres(seen: Seen) -> list[Finding]:
    """Make a figure for each run of the first seed; it needs the models themselves, which records do not keep."""
    return [
        Figure(_title(result.labels), partial(draw, result.directory), NOTE)
        if result.summary and result.directory
        else Figure(_title(result.labels), go.Figure, MISSING)
        for result in seen.results
        if result.labels["seed"] == 0
    ]


def _title(labels: Labels) -> str:
    return f"alpha {labels['alpha']}" + (", FedDecorr" if labels["regularizer"] == "feddecorr" else "")


def leaves_homogeneous_alone(labels: Labels) -> bool:
    """Tell that homogeneous data need no cure."""
    return labels["alpha"] != "inf" or labels["regularizer"] == "none"


SPHERE = Grid(
    name="sphere",
    shows="representations on the unit sphere",
    place="figure 1",
    axes={
        "data": ("cifar10",),
        "method": ("fedavg",),
        "model": ("resnet20",),
        "regularizer": BOTH,
        "alpha": ("inf", 0.05),
    },
    makes=(spheres, ranks),
    wants=leaves_homogeneous_alone,
)
"""Homogeneous, heterogeneous, and heterogeneous with FedDecorr."""
