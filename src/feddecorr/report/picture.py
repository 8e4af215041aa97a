"""A figure as plain values and its colours; `figures` draws it for a page, `printed` for a paper."""

from __future__ import annotations

import colorsys
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feddecorr.collapse.spectrum import LOG_TAU
from feddecorr.methods import METHODS as METHODS_BY_NAME
from feddecorr.objective.regularizers import REGULARIZERS
from feddecorr.results.curves import Band, Points, band
from feddecorr.results.names import ArmName

METHODS = list(METHODS_BY_NAME.table)

Array = NDArray[np.float64]

COLOURS = (
    "#3f90da",
    "#bd1f01",
    "#ffa90e",
    "#832db6",
    "#717581",
    "#a96b59",
    "#e76300",
    "#92dadd",
    "#b9ac70",
    "#94a4a2",
)
"""Petroff's ten colours (2021, arXiv 2107.02270), which colour-blind readers can distinguish."""

BLUE, RED, AMBER, PURPLE, GREY, BROWN, ORANGE, *_ = COLOURS

FIXED = {
    "balanced classes": GREY,
    "imbalanced classes": PURPLE,
    "true": BLUE,
    "not true": RED,
    "open": GREY,
    "the paper's value": AMBER,
    "with FedDecorr − without": RED,
}
"""Answers of claims, and other lines that are not the arms of a comparison, have the same colour in every figure."""

DASHES = (
    ("-", "solid"),
    ("--", "dash"),
    ("-.", "dashdot"),
    (":", "dot"),
    ((0, (8, 2)), "longdash"),
    ((0, (8, 2, 1, 2)), "longdashdot"),
)
"""Lines without a regularizer, with the first one of the registry, and so on: as matplotlib and plotly write them."""

GOLDEN = 0.61803398875
"""The golden ratio: multiples of this step around the colour circle never come near each other."""

DARK, LIGHT = np.array([18, 52, 110]), np.array([150, 200, 235])
ACROSS = 4
"""Panels in a row."""

SPECTRUM = ("k, index of the singular value", "log of the k-th singular value")
THRESHOLD = (LOG_TAU, "log τ = −2")
"""Above it, a singular value counts as significant."""


@dataclass(frozen=True)
class Series:
    """A line, or only its points; without a name it is not in the legend, without values it is not drawn.

    With a `spread`, a band reaches that far above and below it, or horizontal bars left and right of points that are
    `sideways`. Without a colour it has that of its name, the same in all panels. `dash` is its place in `DASHES`.
    """

    x: Sequence[float] | Array
    y: Sequence[float] | Array
    colour: str = ""
    name: str = ""
    points: bool = False
    spread: Sequence[float] | Array = ()
    sideways: bool = False
    marker: str = "o"
    dash: int | None = None


@dataclass(frozen=True)
class Panel:
    """A titled set of series, of bars side by side, a matrix of shades, or points on the unit sphere by name.

    A matrix is drawn from light (0) to dark (the largest value of all panels, or 1). `names` are those of columns and
    rows: of a matrix (by default numbers from 1), of the places of bars, or of the y at 0, 1, 2, … of series. `axis`
    labels the x of panels that do not all share it; those with the same label do.
    """

    title: str
    series: Sequence[Series] = ()
    matrix: Array | None = None
    names: tuple[Sequence[str], Sequence[str]] | None = None
    cloud: Mapping[str, Array] = field(default_factory=dict)
    bars: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    axis: str = ""

    @property
    def cell_names(self) -> tuple[Sequence[str], Sequence[str]]:
        """The names of a matrix's columns and rows."""
        rows, columns = ([str(number + 1) for number in range(count)] for count in np.asarray(self.matrix).shape)
        return self.names or (columns, rows)


@dataclass(frozen=True)
class Picture:
    """Panels in rows of `across`, with common axes; `file` is its name without ending.

    The y in `include` are always in view; `threshold` is a dotted line at a y, with its label; `origin` adds a line at
    x = 0. `size` in inches is that of the print, by default a column or a page wide. Where `shared_x` is false, each
    panel has the scale and the label of its own axis.
    """

    file: str
    heading: str
    text: str
    axes: tuple[str, str]
    panels: Sequence[Panel]
    _: KW_ONLY
    logarithmic: bool = False
    include: tuple[float, ...] = ()
    threshold: tuple[float, str] | None = None
    origin: bool = False
    across: int = ACROSS
    size: tuple[float, float] | None = None
    shared_x: bool = True

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of panels."""
        columns = min(len(self.panels), self.across)
        return -(-len(self.panels) // columns), columns

    @property
    def is_flat(self) -> bool:
        """Whether nothing is drawn in three dimensions."""
        return not any(panel.cloud for panel in self.panels)

    @property
    def darkest(self) -> float:
        """The value that is darkest in all matrices."""
        return max((1.0, *(float(panel.matrix.max()) for panel in self.panels if panel.matrix is not None)))

    def colours(self) -> dict[str, str]:
        """Return the colours of all named series, bars and points."""
        lines = [series.name for panel in self.panels for series in panel.series if series.name and not series.colour]
        others = [name for panel in self.panels for name in (*panel.bars, *panel.cloud)]
        return {"": "#000000", **colour_names([*lines, *others])}


@dataclass(frozen=True)
class StudyContent:
    """The outcome of a study: a document ready for JSON, a table, pictures, and the arrays behind them."""

    title: str
    lead: str
    document: Mapping[str, Any]
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    pictures: Sequence[Picture]
    arrays: Mapping[str, Array]


LineStyle = tuple[str, int]
"""The colour of an arm, and its dash."""


def line_styles(arms: Mapping[str, ArmName]) -> dict[str, LineStyle]:
    """Return how the arms of a comparison are drawn: the colour shows the method, the dash the regularizer.

    Where options or other settings distinguish arms of one method, the first of them has the method's colour.
    """
    variants = list(dict.fromkeys((arm.method, arm.options, arm.others) for arm in arms.values()))
    own: dict[str, tuple[str, str, str]] = {}
    for variant in variants:
        own.setdefault(variant[0], variant)
    palette = colours(len(METHODS) + len(variants))
    known = {variant: palette[METHODS.index(name)] for name, variant in own.items() if name in METHODS}
    if "" in own:  # an arm without a named method is FedAvg in no other figure
        known.setdefault(own[""], palette[0])
    free = iter(colour for colour in palette if colour not in known.values())
    shown = {variant: known.get(variant) or next(free) for variant in variants}
    return {name: (shown[arm.method, arm.options, arm.others], _dash(arm.regularizers)) for name, arm in arms.items()}


def _dash(regularizers: str) -> int:
    """Return the place of the dash of some regularizers; those outside of the registry share the last one."""
    if not regularizers:
        return 0
    first = re.split(r"\W", regularizers)[0]
    place = 1 + list(REGULARIZERS.table).index(first) if first in REGULARIZERS.table else len(DASHES) - 1
    return min(place + ("+" in regularizers), len(DASHES) - 1)


def mean_series(groups: Mapping[str, Sequence[Points]], look: Mapping[str, LineStyle] | None = None) -> list[Series]:
    """Return a series for each group of curves: their mean, in a band of one standard deviation."""
    return [band_series(name, band(curves), (look or {}).get(name)) for name, curves in groups.items()]


def band_series(name: str, found: Band, look: LineStyle | None = None) -> Series:
    """Return a mean in a band; a band of no width is none."""
    x, means, spread = found
    colour, dash = look or ("", None)
    return Series(x, means, colour, name=name, spread=spread if any(spread) else (), dash=dash)


def shades(count: int) -> list[str]:
    """Return that many colours from dark to light, for values from the first to the last."""
    mixes = np.linspace(0, 1, count)[:, None]
    return ["#" + "".join(f"{part:02x}" for part in colour) for colour in (DARK + mixes * (LIGHT - DARK)).astype(int)]


def fan(x: Array, table: Array) -> list[Series]:
    """Return a series for every column, shaded from the first to the last."""
    return [Series(x, column, colour) for column, colour in zip(table.T, shades(table.shape[1]), strict=True)]


def colours(count: int) -> list[str]:
    """Return that many different colours; beyond ten, hues that are far apart."""
    return [COLOURS[place] if place < len(COLOURS) else _hue(place) for place in range(count)]


def colour_names(names: Iterable[str]) -> dict[str, str]:
    """Return a colour for each name: its own fixed one, or one that no other has."""
    wanted = list(dict.fromkeys(names))
    taken = {FIXED[name] for name in wanted if name in FIXED}
    free: Iterator[str] = (colour for colour in colours(len(wanted) + len(taken)) if colour not in taken)
    return {name: FIXED[name] if name in FIXED else next(free) for name in wanted}


def _hue(place: int) -> str:
    lightness = (0.35, 0.5, 0.65)[place % 3]
    parts = colorsys.hls_to_rgb(place * GOLDEN % 1, lightness, 0.6)
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)
