"""The pictures of a diagnosis, the paper's figures among them, and the page that shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from feddecorr.collapse.diagnosis import Diagnosis, find_reference
from feddecorr.collapse.spectrum import SHOWN_VALUES
from feddecorr.collapse.verdict import MEANINGS, rows
from feddecorr.errors import UserError
from feddecorr.report import figures
from feddecorr.report.colours import colours
from feddecorr.report.page import Section, write_page
from feddecorr.report.sphere_points import sphere_points

COLUMNS = 4
SPHERES = 7
"""A browser draws at most sixteen pictures in three dimensions on one page, and each model has two."""

LEAD = (
    "A model has collapsed when its representations lie in few of their dimensions: then the singular values of "
    "their covariance fall off quickly. Each line is one model."
)


def write_diagnosis(found: Sequence[Diagnosis], path: Path, further: Sequence[Section] = ()) -> None:
    """Write the page of any number of diagnoses, and what else there is to show."""
    write_page(path, "Has my model collapsed?", LEAD, [*_sections(found), *further])


def _sections(found: Sequence[Diagnosis]) -> Iterator[Section]:
    yield Section("The answer", "", blocks=dict(_answers(found)))
    whole = [each for each in found if each.client is None]
    text = f"Logarithms of the singular values of the covariance, largest first; at most {SHOWN_VALUES}."
    yield Section("Spectra", text, figure=figures.spectra({each.name: each.singular_values for each in whole}))
    if local := [each for each in found if each.client is not None]:
        yield Section("Local models", "The same for each client's model before averaging.", figure=grid(local))
    yield from _side_by_side(whole)
    tables = [{row[0]: row[1] for row in rows(each)} for each in found]
    lines = [
        [name, *(table.get(name, "–") for table in tables), text]
        for name, text in MEANINGS.items()
        if any(name in table for table in tables)
    ]
    yield Section("Every measure", "", headings=["measure", *(each.name for each in found), "what it is"], rows=lines)


def _answers(found: Sequence[Diagnosis]) -> Iterator[tuple[str, list[str]]]:
    """Yield a short block for each model: its name, and the sentences without it."""
    for each in found:
        said = each.answer(find_reference(each, found))
        bare = [sentence.removeprefix(f"{each.name}: ") for sentence in said]
        yield each.name, [sentence[:1].upper() + sentence[1:] for sentence in bare]


def _side_by_side(whole: Sequence[Diagnosis]) -> Iterator[Section]:
    """Yield the pictures that each model has of its own, those of all models beside each other."""
    round_ones = [each for each in whole if each.gathered and each.classes is not None and each.dimensions >= 3]
    more = f" Of {len(round_ones)} models, the first {SPHERES} are shown." if len(round_ones) > SPHERES else ""
    text = f"Samples on the unit sphere of the three strongest directions, by class.{more}"
    yield from _beside("Spheres", text, {each.name: sphere(each) for each in round_ones[:SPHERES]})
    three = {each.name: sphere(each, 3) for each in round_ones[:SPHERES]}
    yield from _beside("Three classes", f"The three largest classes alone.{more}", three)
    text = "Angles between class means, in degrees. Neural collapse makes all of them equal and wide."
    several = [each for each in whole if each.class_mean_angles and len(each.class_mean_angles) > 1]
    yield from _beside("Classes", text, {each.name: angles(each) for each in several})
    text = "|u·v| of the representation's principal directions and the classifier's right singular vectors."
    aligned = {each.name: alignments(each) for each in whole if each.classifier_alignments}
    yield from _beside("Classifiers", text, aligned)
    layers = {
        each.name: figures.spectra(each.layer_singular_values, threshold=False)
        for each in whole
        if each.layer_singular_values
    }
    yield from _beside("Layers", "Singular values of the weights of each layer, largest first.", layers)


def _beside(heading: str, text: str, drawn: Mapping[str, go.Figure]) -> Iterator[Section]:
    if drawn:
        yield Section(heading, text, figures=drawn)


def grid(local: Sequence[Diagnosis], shown: int = SHOWN_VALUES) -> go.Figure:
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
        margin={"l": 0, "r": 0, "t": 30, "b": 0},
        legend={"orientation": "h", "y": 0, "yanchor": "top", "itemsizing": "constant"},  # above is the toolbar
        showlegend=True,
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
