"""Pictures as files for papers and for pages without scripts: pdf, svg and png, by matplotlib."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from feddecorr.core.files import write_bytes
from feddecorr.core.text import matplotlib_text
from feddecorr.errors import UserError
from feddecorr.report.picture import DASHES, Panel, Picture, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METADATA: dict[str, dict[str, None]] = {
    ".pdf": {"CreationDate": None},
    ".svg": {"Date": None},
    ".png": {},
}
"""The formats by ending, and what is left out of them, so that the same picture is the same file."""

STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 300,
    "pdf.fonttype": 42,  # TrueType, embedded: what publishers ask for
    "svg.fonttype": "path",
    "svg.hashsalt": "feddecorr",
}
COLUMN, PAGE, HEIGHT = 3.35, 6.9, 2.3
"""Widths of a column and of a page of two columns, and the height of a row of panels, in inches."""

MARK, LETTER, ROW = 0.5, 0.055, 0.16
"""Room of a legend's mark, letter and row, in inches."""


PLAIN = 4
"""Dashes that lines get in turn if they are not arms, whose regularizers have theirs."""


def is_available() -> bool:
    """Return whether figures can be printed here."""
    return find_spec("matplotlib") is not None


def refuse_unprintable(path: Path) -> None:
    """Refuse, before any work, a file that cannot be drawn."""
    if path.suffix.lower() not in METADATA:
        raise UserError(f"{path}: a figure ends in {', '.join(METADATA)}, not in '{path.suffix}'")
    if not is_available():
        raise UserError("figures are drawn by matplotlib, which is not installed: pip install 'feddecorr[figures]'")


def save(picture: Picture, path: Path) -> None:
    """Write the picture in the format of the file's ending, in one step."""
    refuse_unprintable(path)
    from matplotlib import rc_context  # noqa: PLC0415 - an extra, loaded when it is needed

    ending = path.suffix.lower()
    stream = io.BytesIO()
    with rc_context(STYLE):
        draw(picture).savefig(stream, format=ending[1:], metadata=METADATA[ending])
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, stream.getvalue())


def draw(picture: Picture) -> Figure:
    """Return the picture as a figure for a page of two columns: one panel fills a column."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra, loaded when it is needed

    count, (rows, columns) = len(picture.panels), picture.grid
    figure = Figure(figsize=picture.size or (COLUMN if count == 1 else PAGE, HEIGHT * rows))
    grid = figure.subplots(
        rows,
        columns,
        sharex=picture.is_flat and picture.shared_x,
        sharey=picture.is_flat,
        squeeze=False,
        subplot_kw={} if picture.is_flat else {"projection": "3d"},
    )
    axes: list[Any] = list(grid.flat)
    names = list(dict.fromkeys(series.name for panel in picture.panels for series in panel.series if series.name))
    dashes = {name: place % PLAIN for place, name in enumerate(names)}  # for print without colour
    first: dict[str, Any] = {}
    for place, (panel, axis) in enumerate(zip(picture.panels, axes, strict=False)):
        if panel.axis and first.setdefault(panel.axis, axis) is not axis:
            axis.sharex(first[panel.axis])
        axis.set_title(matplotlib_text(panel.title))
        if panel.cloud:
            _sphere(axis, panel.cloud, picture.colours())
            continue
        _panel(axis, panel, picture, dashes)
        axis.tick_params(labelbottom=not picture.shared_x or place + columns >= count)
        axis.set_xlabel(panel.axis)
    for axis in axes[count:]:
        axis.set_axis_off()
    figure.supxlabel(picture.axes[0], fontsize=STYLE["axes.labelsize"])
    figure.supylabel(picture.axes[1], fontsize=STYLE["axes.labelsize"])
    _legend(figure, axes)
    return figure


def _panel(axis: Axes, panel: Panel, picture: Picture, dashes: Mapping[str, int]) -> None:
    palette = picture.colours()
    if panel.matrix is not None:
        _cells(axis, panel, picture.darkest)
    for series in panel.series:
        if len(series.x):
            place = dashes.get(series.name, 0) if series.dash is None else series.dash
            _line(axis, series, series.colour or palette[series.name], DASHES[place][0])
    _bars(axis, panel, palette)
    _frame(axis, picture, panel)


def _line(axis: Axes, series: Series, colour: str, dash: Any) -> None:
    x, y = np.asarray(series.x, float), np.asarray(series.y, float)
    alone = series.points or len(x) == 1
    style: dict[str, Any] = {"linestyle": "", "marker": series.marker} if alone else {"linestyle": dash}
    axis.plot(x, y, color=colour, label=matplotlib_text(series.name) or "_", **style)
    spread = np.asarray(series.spread, float)
    if len(spread) and series.sideways:
        axis.hlines(y, x - spread, x + spread, colors=colour, linewidth=1.0)
    elif len(spread):
        axis.fill_between(x, y - spread, y + spread, color=colour, alpha=0.2, linewidth=0)


def _bars(axis: Axes, panel: Panel, palette: Mapping[str, str]) -> None:
    width = 0.8 / max(len(panel.bars), 1)
    for number, (name, values) in enumerate(panel.bars.items()):
        heights = [np.nan if value is None else value for value in values]
        places = np.arange(len(heights)) + (number + 0.5) * width - 0.4
        axis.bar(places, heights, width, color=palette[name], label=matplotlib_text(name))
    if panel.bars and panel.names:
        axis.set_xticks(range(len(panel.names[0])), labels=list(map(matplotlib_text, panel.names[0])))


def _frame(axis: Axes, picture: Picture, panel: Panel) -> None:
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 - an extra, loaded when it is needed

    if picture.logarithmic:
        axis.set_yscale("log")
    lines = [np.asarray(series.x, float) for each in picture.panels for series in each.series]
    if lines and all((x == x.round()).all() for x in lines):
        axis.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    if picture.include:
        axis.update_datalim([(axis.dataLim.x0, y) for y in picture.include])
        axis.autoscale_view()
    if picture.origin:
        axis.axvline(0, color="#888888", linewidth=0.8, zorder=1)
    if panel.series and panel.names:
        rows = list(map(matplotlib_text, panel.names[1]))
        axis.set_yticks(range(len(rows)), labels=rows)
        axis.set_ylim(len(rows) - 0.4, -0.6)
    if picture.threshold is not None:
        y, label = picture.threshold
        axis.axhline(y, color="#888888", linestyle=":", linewidth=0.8)
        # Below the line and on the left: a spectrum begins above it.
        place: Any = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "va": "top"}
        axis.annotate(label, (0, y), (2, -1), fontsize=6, color="#666666", **place)


def _cells(axis: Axes, panel: Panel, darkest: float) -> None:
    matrix = np.asarray(panel.matrix)
    axis.imshow(matrix, cmap="Blues", vmin=0, vmax=darkest, aspect="auto" if panel.names else "equal")
    axis.grid(visible=False)
    for ticks, names in zip((axis.set_xticks, axis.set_yticks), panel.cell_names, strict=True):
        step = -(-len(names) // 10)
        ticks(range(0, len(names), step), labels=list(map(matplotlib_text, names))[::step])


def _sphere(axis: Any, cloud: Mapping[str, Any], palette: Mapping[str, str]) -> None:
    turns, heights = np.meshgrid(np.linspace(0, 2 * np.pi, 25), np.linspace(0, np.pi, 13))
    x, y, z = np.sin(heights) * np.cos(turns), np.sin(heights) * np.sin(turns), np.cos(heights)
    axis.plot_wireframe(x, y, z, color="#cccccc", linewidth=0.2)
    for name, points in cloud.items():
        label = matplotlib_text(name)
        axis.scatter(*np.asarray(points).T, s=1.5, color=palette[name], label=label, depthshade=False, rasterized=True)
    axis.set_box_aspect((1, 1, 1), zoom=1.3)
    axis.set_axis_off()


def _legend(figure: Figure, axes: Sequence[Any]) -> None:
    """Put one legend above all panels, for which the figure grows; what is named alike is named once."""
    found: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if found:
        width, height = figure.get_size_inches()
        columns = max(1, min(len(found), int(width / (MARK + LETTER * max(map(len, found))))))
        figure.set_size_inches(width, height + ROW * -(-len(found) // columns))
        figure.legend(found.values(), found.keys(), loc="outside upper center", ncols=columns, markerscale=2)
