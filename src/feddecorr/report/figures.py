"""The pictures of a report, as plotly figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from feddecorr.collapse.diagnosis import Diagnosis
from feddecorr.collapse.spectrum import LOG_TAU, SHOWN_VALUES, logarithms
from feddecorr.partition.heterogeneity import LabelCounts
from feddecorr.report.colours import colours
from feddecorr.results.curves import Band

SHOWN_CLIENTS = 1000

Axis = tuple[str, list[str]]
"""What an axis shows, and the names along it."""


def plot(found: Diagnosis) -> go.Figure:
    """Draw the spectrum of a diagnosed model; `feddecorr.report.diagnosis_page` has more pictures."""
    return spectra({found.name: found.singular_values})


def spectra(runs: Mapping[str, Sequence[float]], shown: int = SHOWN_VALUES, *, threshold: bool = True) -> go.Figure:
    """Draw the logarithms of the singular values, largest first, as in the paper's figure 2.

    The threshold τ is of a covariance's values, not of a layer's. A run without values is left out, and the
    others keep their colours.
    """
    figure = _figure("k, index of the singular value", "log of the k-th singular value")
    for (name, values), colour in zip(runs.items(), colours(len(runs)), strict=True):
        if logs := logarithms(values, shown):
            figure.add_scatter(x=list(range(1, len(logs) + 1)), y=logs, name=name, mode="lines", line_color=colour)
    if threshold:
        figure.add_hline(y=LOG_TAU, line_dash="dot", line_color="#888", annotation_text="log τ = −2")
    return figure


def over_rounds(runs: Mapping[str, Sequence[tuple[int, float]]], what: str) -> go.Figure:
    """Draw one measure per round for each run that has it; every run keeps its colour in all pictures."""
    figure = _figure("round", what)
    for (name, points), colour in zip(runs.items(), colours(len(runs)), strict=True):
        if points:
            rounds, values = zip(*points, strict=True)
            mode = "lines" if len(points) > 1 else "markers"
            figure.add_scatter(x=list(rounds), y=list(values), name=name, mode=mode, line_color=colour)
    return figure


def bands(lines: Mapping[str, Band], x: str, y: str, *, threshold: bool = False) -> go.Figure:
    """Draw means with a shaded band around each; neither a band of no width nor a line of no points is drawn."""
    figure = _figure(x, y)
    for (name, (places, means, spread)), colour in zip(lines.items(), colours(len(lines)), strict=True):
        if not places:
            continue  # the others keep their colours
        if any(spread):
            above = [mean + width for mean, width in zip(means, spread, strict=True)]
            below = [mean - width for mean, width in zip(means, spread, strict=True)]
            shade: dict[str, Any] = {"line": {"width": 0}, "showlegend": False, "hoverinfo": "skip", "mode": "lines"}
            figure.add_scatter(x=list(places), y=above, legendgroup=name, **shade)
            figure.add_scatter(
                x=list(places), y=below, legendgroup=name, fill="tonexty", fillcolor=_light(colour), **shade
            )
        mode = "lines" if len(places) > 1 else "markers"
        figure.add_scatter(x=list(places), y=list(means), name=name, legendgroup=name, mode=mode, line_color=colour)
    if threshold:
        figure.add_hline(y=LOG_TAU, line_dash="dot", line_color="#888", annotation_text="log τ = −2")
    return figure


def bars(groups: Mapping[str, Sequence[float | None]], places: Sequence[str], x: str, y: str) -> go.Figure:
    """Draw the groups' bars side by side at each place."""
    figure = _figure(x, y)
    for (name, values), colour in zip(groups.items(), colours(len(groups)), strict=True):
        figure.add_bar(x=list(places), y=list(values), name=name, marker_color=colour)
    figure.update_xaxes(type="category")
    return figure


def labels(counts: LabelCounts, classes: Sequence[str]) -> go.Figure:
    """Draw how many examples of which class the first clients hold."""
    figure = _figure("client", "class")
    table = counts.table(SHOWN_CLIENTS)
    by_class = table.T.tolist()
    text = [[str(count) if count else "" for count in row] for row in by_class]
    cells: dict[str, Any] = {"text": text, "texttemplate": "%{text}"} if len(table) <= 20 and len(classes) <= 20 else {}
    figure.add_heatmap(
        z=by_class,
        x=[str(client) for client in range(len(table))],
        y=list(classes),
        colorscale="Blues",
        hovertemplate="client %{x}, class %{y}: %{z} examples<extra></extra>",
        **cells,
    )
    figure.update_xaxes(type="category")
    figure.update_yaxes(type="category")
    return figure


def shown_clients(count: int) -> str:
    """Say which clients are shown, where that is not all of them."""
    return f" Of {count} clients, the first {SHOWN_CLIENTS} are shown." if count > SHOWN_CLIENTS else ""


def heatmap(cells: Sequence[Sequence[float]], across: Axis, down: Axis) -> go.Figure:
    """Draw a table of numbers as shades."""
    (x, columns), (y, rows) = across, down
    figure = _figure(x, y)
    figure.add_heatmap(z=cells, x=columns, y=rows, colorscale="Blues")
    figure.update_xaxes(type="category")
    figure.update_yaxes(type="category", autorange="reversed")
    return figure


def _figure(x: str, y: str) -> go.Figure:
    figure = go.Figure()
    figure.update_layout(
        template="plotly_white",
        height=420,
        margin={"l": 60, "r": 20, "t": 30, "b": 50},
        legend={"orientation": "h", "y": -0.2, "yanchor": "top"},  # above, it would lie under the toolbar
        xaxis_title=x,
        yaxis_title=y,
        showlegend=True,
        hovermode="x",
        hoverdistance=-1,  # the nearest values, however few there are
    )
    return figure


def _light(colour: str) -> str:
    """Return the colour as a shade that others are seen through."""
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.15)"
