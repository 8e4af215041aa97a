"""Representations on the unit sphere, as in the paper's first figure."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from plotly.subplots import make_subplots
from torch import Tensor
from torch.nn.functional import normalize

from feddecorr.files import load_tensors
from feddecorr.report.figures import COLOURS
from feddecorr.representation import capture_representations
from feddecorr.runs.directory import RunDirectory
from feddecorr.studies.catalogue.accuracy import BOTH
from feddecorr.studies.grid import Grid, Seen
from feddecorr.studies.study import Figure, Finding, Labels
from feddecorr.studies.tables import ranks

if TYPE_CHECKING:
    import plotly.graph_objects as go

SHOWN = 1000
"""Test images that are looked at, the first ones."""


@torch.no_grad()
def unit_vectors(directory: Path) -> tuple[Tensor, Tensor]:
    """Return (n, 3) unit vectors of test images and their labels.

    Representations are centred, projected on their three strongest directions, and divided by their length.
    """
    experiment = RunDirectory.open(directory).experiment()
    dataset = experiment.data.load()
    model = experiment.model.build(dataset.shape, len(dataset.classes)).eval()
    model.load_state_dict(load_tensors(directory / "weights.safetensors"))
    with capture_representations(model) as seen:
        model(dataset.normalize(dataset.test.pixels[:SHOWN]))
    z = seen.z.double() - seen.z.double().mean(0)
    strongest = torch.linalg.svd(z, full_matrices=False).Vh[:3]
    return normalize(z @ strongest.T), dataset.test.labels[:SHOWN]


def draw_spheres(panels: dict[str, Path]) -> go.Figure:
    """Draw a sphere for each run, with a colour for each class."""
    figure = make_subplots(
        1, max(1, len(panels)), subplot_titles=list(panels), specs=[[{"type": "scene"}] * max(1, len(panels))]
    )
    for column, directory in enumerate(panels.values(), start=1):
        points, labels = unit_vectors(directory)
        x, y, z = points.T.tolist()
        colours = [COLOURS[label % len(COLOURS)] for label in labels.tolist()]
        figure.add_scatter3d(
            x=x, y=y, z=z, mode="markers", marker={"size": 2, "color": colours}, showlegend=False, row=1, col=column
        )
    figure.update_layout(template="plotly_white", height=420, margin={"l": 0, "r": 0, "t": 40, "b": 0})
    return figure


def spheres(seen: Seen) -> list[Finding]:
    """Make the figure of the first seed; it needs the models themselves, which records do not keep."""
    first = [result for result in seen.results if result.labels["seed"] == 0]
    panels = {_title(result.labels): result.directory for result in first if result.summary and result.directory}
    absent = [_title(result.labels) for result in first if _title(result.labels) not in panels]
    note = "Centred, along the three strongest directions, scaled to length one; a colour for each class."
    missing = f" Missing: {'; '.join(absent)} (drawn from the runs' models, not from records)." if absent else ""
    return [Figure("First seed", partial(draw_spheres, panels), note + missing)]


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
