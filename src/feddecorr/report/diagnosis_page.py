"""The pictures of a diagnosis, the paper's figures among them, and the page that shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from feddecorr.collapse.answer import MEANINGS, rows
from feddecorr.collapse.diagnosis import Diagnosis, find_reference
from feddecorr.errors import UserError
from feddecorr.report import figures
from feddecorr.report.colours import colours
from feddecorr.report.page import Section, write_page
from feddecorr.report.sphere_points import sphere_points

COLUMNS = 4
LEAD = (
    "A model has collapsed when its representations lie in few of their dimensions: then the singular values of "
    "their covariance fall off quickly. Each line is one model."
)


def write_diagnosis(found: Sequence[Diagnosis], path: Path, further: Sequence[Section] = ()) -> None:
    """Write the page of any number of diagnoses, and what else there is to show."""
    write_page(path, "Has my model collapsed?", LEAD, [*_sections(found), *further])


def _sections(found: Sequence[Diagnosis]) -> Iterator[Section]:
    said = " ".join(sentence for each in found for sentence in each.answer(find_reference(each, found)))
    yield Section("The answer", said)
    whole = {each.name: each for each in found if each.client is None}
    text = f"Logarithms of the singular values of the covariance, largest first; at most {figures.SHOWN_VALUES}."
    yield Section("Spectra", text, figure=figures.spectra({name: each.singular_values for name, each in whole.items()}))
    if local := [each for each in found if each.client is not None]:
        yield Section("Local models", "The same for each client's model before averaging.", figure=grid(local))
    for each in whole.values():
        if each.gathered is not None and each.classes is not None and each.dimensions >= 3:
            text = "Samples on the unit sphere of the three strongest directions, by class."
            yield Section(f"Sphere: {each.name}", text, figure=sphere(each))
            yield Section(f"Three classes: {each.name}", "The three largest classes alone.", figure=sphere(each, 3))
        if each.class_mean_angles and len(each.class_mean_angles) > 1:
            text = "Angles between class means, in degrees. Neural collapse makes all of them equal and wide."
            yield Section(f"Classes: {each.name}", text, figure=angles(each))
        if each.classifier_alignments:
            text = "|u·v| of the representation's principal directions and the classifier's right singular vectors."
            yield Section(f"Classifier: {each.name}", text, figure=alignments(each))
        if each.layer_singular_values:
            text = "Singular values of the weights of each layer, largest first."
            yield Section(
                f"Layers: {each.name}", text, figure=figures.spectra(each.layer_singular_values, threshold=False)
            )
    tables = [{row[0]: row[1] for row in rows(each)} for each in found]
    lines = [
        [name, *(table.get(name, "–") for table in tables), text]
        for name, text in MEANINGS.items()
        if any(name in table for table in tables)
    ]
    yield Section("Every measure", "", headings=["measure", *(each.name for each in found), "what it is"], rows=lines)


def grid(local: Sequence[Diagnosis], shown: int = figures.SHOWN_VALUES) -> go.Figure:
    """Draw a panel for each client, with a line for each run, as in the paper's figure of all clients."""
    panels: dict[int, dict[str, Sequence[float]]] = {}
    for each in local:
        if each.client is None:
            raise UserError(f"'{each.name}' is not the model of a client")
        panels.setdefault(each.client, {})[each.reference or each.name] = each.singular_values
    clients = sorted(panels)
    columns = min(COLUMNS, len(clients))
    lines = -(-len(clients) // columns)
    figure = make_subplots(
        lines, columns, subplot_titles=[f"client {client}" for client in clients], shared_xaxes=True, shared_yaxes=True
    )
    names = list(dict.fromkeys(name for runs in panels.values() for name in runs))
    for place, client in enumerate(clients):
        drawn = figures.spectra(panels[client], shown)
        for name, trace in zip(panels[client], drawn.data, strict=True):
            trace.update(
                line_color=colours(len(names))[names.index(name)],
                legendgroup=name,
                showlegend=place == 0,
            )
            figure.add_trace(trace, row=place // columns + 1, col=place % columns + 1)
    figure.update_layout(template="plotly_white", height=80 + 240 * lines, legend={"orientation": "h", "y": -0.1})
    return figure


def sphere(diagnosis: Diagnosis, largest: int | None = None) -> go.Figure:
    """Draw samples on the unit sphere, by class, as in the paper's figure 1.

    Features are projected to the three strongest principal directions of what is drawn, and scaled to length 1.
    With `largest`, only the samples of that many classes are drawn, those with the most samples.
    """
    points = sphere_points(diagnosis, largest)
    figure = go.Figure()
    for (label, mine), colour in zip(points.items(), colours(len(points)), strict=True):
        x, y, w = mine.T.tolist()
        marker = {"size": 2.5, "color": colour}
        figure.add_scatter3d(x=x, y=y, z=w, mode="markers", name=f"class {label}", marker=marker)
    side = {"range": [-1.05, 1.05], "showticklabels": False, "title": ""}
    figure.update_layout(
        template="plotly_white",
        height=480,
        margin={"l": 0, "r": 0, "t": 0, "b": 0},
        scene={"xaxis": side, "yaxis": side, "zaxis": side, "aspectmode": "cube"},
    )
    return figure


def angles(diagnosis: Diagnosis) -> go.Figure:
    """Draw the angles between class means."""
    if diagnosis.class_mean_angles is None or diagnosis.per_class_samples is None:
        raise UserError(f"no classes of '{diagnosis.name}' are known whose angles could be drawn")
    names = list(diagnosis.per_class_samples)
    return figures.heatmap(diagnosis.class_mean_angles, ("class", names), ("class", names))


def alignments(diagnosis: Diagnosis) -> go.Figure:
    """Draw how the classifier's singular vectors lie to the principal directions (the paper's Assumption 2)."""
    cells = diagnosis.classifier_alignments
    if not cells:
        raise UserError(f"'{diagnosis.name}' has no classifier whose directions could be drawn")
    across = [str(place + 1) for place in range(len(cells[0]))]
    down = [str(place + 1) for place in range(len(cells))]
    return figures.heatmap(cells, ("principal direction", across), ("singular vector of the classifier", down))
