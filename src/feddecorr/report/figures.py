"""Pictures as plotly figures for pages, and the kinds of pictures in reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from feddecorr.collapse.diagnosis import Diagnosis
from feddecorr.collapse.spectrum import SHOWN_VALUES, logarithms
from feddecorr.partition.heterogeneity import LabelCounts
from feddecorr.report.picture import DASHES, SPECTRUM, THRESHOLD, LineStyle, Panel, Picture, Series, band_series
from feddecorr.results.curves import Band

SHOWN_CLIENTS = 1000
MOST_WRITTEN = 20
"""Up to this many rows and columns, counts are written into the cells of their heatmap."""

Axis = tuple[str, list[str]]
"""What an axis shows, and the names along it."""


def draw(picture: Picture) -> go.Figure:
    """Return the picture as a plotly figure."""
    titles = [panel.title for panel in picture.panels]
    rows, columns = picture.grid
    figure = make_subplots(
        rows,
        columns,
        subplot_titles=titles if any(titles) else None,
        shared_xaxes=picture.shared_x and rows > 1,
        shared_yaxes=picture.is_flat,
        horizontal_spacing=0.04,
        specs=[[{"type": "xy" if picture.is_flat else "scene"}] * columns] * rows,
    )
    named: set[str] = set()
    for place, panel in enumerate(picture.panels):
        for trace in _traces(panel, picture):
            if trace.type != "heatmap":
                shown = bool(trace.name) and trace.showlegend is not False and trace.name not in named
                named |= {trace.name} if shown else set()
                trace.update(showlegend=shown)
            figure.add_trace(trace, row=place // columns + 1, col=place % columns + 1)
    _lay_out(figure, picture)
    return figure


def _traces(panel: Panel, picture: Picture) -> Iterator[Any]:
    palette = picture.colours()
    for series in panel.series:
        if len(series.x):
            yield from _lines(series, series.colour or palette[series.name])
    for name, values in panel.bars.items():
        places = list(panel.names[0]) if panel.names else None
        yield go.Bar(x=places, y=list(values), name=name, marker_color=palette[name])
    for name, points in panel.cloud.items():
        x, y, z = np.asarray(points).T.tolist()
        yield go.Scatter3d(x=x, y=y, z=z, mode="markers", name=name, marker={"size": 2.5, "color": palette[name]})
    if panel.matrix is not None:
        columns, rows = map(list, panel.cell_names)
        scale: dict[str, Any] = {"zmin": 0, "zmax": picture.darkest, "showscale": panel is picture.panels[0]}
        yield go.Heatmap(z=panel.matrix.tolist(), x=columns, y=rows, colorscale="Blues", **scale)


def _lines(series: Series, colour: str) -> Iterator[go.Scatter]:
    """Yield the traces of a series: the edges of its band, if there is one, and the line."""
    x, y = (list(map(float, values)) for values in (series.x, series.y))
    mode: dict[str, Any] = {"mode": "lines"}
    if series.points or len(x) == 1:
        mode = {"mode": "markers", "marker": {"color": colour, "size": 5}}
    if len(series.spread) and series.sideways:
        mode["error_x"] = {"type": "data", "array": list(series.spread), "color": colour}
    elif len(series.spread):
        edge: dict[str, Any] = {"line": {"width": 0}, "showlegend": False, "hoverinfo": "skip", "mode": "lines"}
        above, below = ([mean + sign * width for mean, width in zip(y, series.spread, strict=True)] for sign in (1, -1))
        yield go.Scatter(x=x, y=above, legendgroup=series.name, **edge)
        yield go.Scatter(x=x, y=below, legendgroup=series.name, fill="tonexty", fillcolor=_light(colour), **edge)
    line = {"color": colour, "dash": DASHES[series.dash or 0][1]}
    yield go.Scatter(x=x, y=y, name=series.name, legendgroup=series.name, line=line, **mode)


def _lay_out(figure: go.Figure, picture: Picture) -> None:
    rows, columns = picture.grid
    figure.update_layout(
        template="plotly_white",
        height=420 if rows == 1 else 80 + 240 * rows,
        margin={"l": 60, "r": 20, "t": 60 if any(panel.title for panel in picture.panels) else 30, "b": 75},
        # Above is the toolbar. A row fits into the margin; a page makes room for more.
        legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom"},
        showlegend=True,
        hovermode="x",
        hoverdistance=-1,  # the nearest values, however few there are
    )
    figure.update_xaxes(title=picture.axes[0], row=rows)
    figure.update_yaxes(title=picture.axes[1], col=1)
    for place, panel in enumerate(picture.panels):
        if panel.axis:
            first = next(number for number, each in enumerate(picture.panels) if each.axis == panel.axis)
            where = {"row": place // columns + 1, "col": place % columns + 1}
            figure.update_xaxes(title=panel.axis, matches=f"x{first + 1}" if first else "x", **where)
    if picture.include:
        figure.update_yaxes(range=[min(picture.include) - 0.05, max(picture.include) + 0.05])
    if picture.logarithmic:
        figure.update_yaxes(type="log", exponentformat="power")
    if picture.threshold is not None:
        y, label = picture.threshold
        figure.add_hline(
            y=y, line_dash="dot", line_color="#888", annotation_text=label, annotation_position="bottom left"
        )
    if picture.origin:
        figure.add_vline(x=0, line_color="#888")
    if any(panel.matrix is not None or panel.bars for panel in picture.panels):
        figure.update_xaxes(type="category")
    if any(panel.matrix is not None for panel in picture.panels):
        figure.update_yaxes(type="category", autorange="reversed")
    if not picture.is_flat:
        side = {"range": [-1.05, 1.05], "showticklabels": False, "title": ""}
        figure.update_layout(height=480, margin={"l": 0, "r": 0, "t": 30, "b": 0}, legend={"itemsizing": "constant"})
        figure.update_scenes(xaxis=side, yaxis=side, zaxis=side, aspectmode="cube")


def _light(colour: str) -> str:
    """Return the colour, nearly transparent."""
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.15)"


def plot(found: Diagnosis) -> go.Figure:
    """Draw the spectrum of a diagnosed model; `feddecorr.report.diagnosis_page` has more figures."""
    return spectra({found.name: found.singular_values})


def spectra(runs: Mapping[str, Sequence[float]], shown: int = SHOWN_VALUES, *, threshold: bool = True) -> go.Figure:
    """Draw the logarithms of the singular values, largest first, as in the paper's figure 2.

    The threshold τ is of a covariance's values, not of a layer's. A run without values is left out, and the
    others keep their colours.
    """
    return draw(_one_panel(SPECTRUM, spectrum_series(runs, shown), threshold=threshold))


def spectrum_series(runs: Mapping[str, Sequence[float]], shown: int = SHOWN_VALUES) -> list[Series]:
    """Return the logarithms of singular values by their index, a series for each run."""
    logs = {name: logarithms(values, shown) for name, values in runs.items()}
    return [Series(range(1, len(each) + 1), each, name=name) for name, each in logs.items()]


def over_rounds(runs: Mapping[str, Sequence[tuple[int, float]]], what: str) -> go.Figure:
    """Draw one measure per round for each run that has it; every run keeps its colour in all figures."""
    series = [Series([x for x, _ in points], [y for _, y in points], name=name) for name, points in runs.items()]
    return draw(_one_panel(("round", what), series))


def bands(
    lines: Mapping[str, Band], x: str, y: str, *, threshold: bool = False, styles: Mapping[str, LineStyle] | None = None
) -> go.Figure:
    """Draw means with a shaded band around each."""
    series = [band_series(name, band, (styles or {}).get(name)) for name, band in lines.items()]
    return draw(_one_panel((x, y), series, threshold=threshold))


def bars(groups: Mapping[str, Sequence[float | None]], places: Sequence[str], x: str, y: str) -> go.Figure:
    """Draw grouped bars."""
    return draw(Picture("", "", "", (x, y), [Panel("", bars=groups, names=(places, ()))]))


def heatmap(cells: Sequence[Sequence[float]], across: Axis, down: Axis) -> go.Figure:
    """Draw a table of numbers as a heatmap."""
    (x, columns), (y, rows) = across, down
    return draw(Picture("", "", "", (x, y), [Panel("", matrix=np.asarray(cells, float), names=(columns, rows))]))


def labels(counts: LabelCounts, classes: Sequence[str]) -> go.Figure:
    """Draw how many examples of which class the first clients hold."""
    table = counts.table(SHOWN_CLIENTS)
    clients = [str(client) for client in range(len(table))]
    figure = heatmap(table.T.tolist(), ("client", clients), ("class", list(classes)))
    figure.update_traces(hovertemplate="client %{x}, class %{y}: %{z} examples<extra></extra>")
    if max(len(table), len(classes)) <= MOST_WRITTEN:
        text = [[str(count) if count else "" for count in row] for row in table.T.tolist()]
        figure.update_traces(text=text, texttemplate="%{text}")
    return figure


def shown_clients(count: int) -> str:
    """Say which clients are shown, where that is not all of them."""
    return f" Of {count} clients, the first {SHOWN_CLIENTS} are shown." if count > SHOWN_CLIENTS else ""


def _one_panel(axes: tuple[str, str], series: Sequence[Series], *, threshold: bool = False) -> Picture:
    return Picture("", "", "", axes, [Panel("", series)], threshold=THRESHOLD if threshold else None)
