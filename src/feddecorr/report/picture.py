"""A figure as plain values, which one renderer draws for a page (`figures`) and one for print (`printed`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feddecorr.collapse.spectrum import LOG_TAU
from feddecorr.report.colours import colour_names
from feddecorr.results.curves import Points, band

Array = NDArray[np.float64]

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
    `sideways`. Without a colour it has that of its name, the same in all panels.
    """

    x: Sequence[float] | Array
    y: Sequence[float] | Array
    colour: str = ""
    name: str = ""
    points: bool = False
    spread: Sequence[float] | Array = ()
    sideways: bool = False
    marker: str = "o"


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


@dataclass(frozen=True)
class Picture:
    """Panels in rows of `across`, with common axes; `file` is its name without ending.

    The y in `include` are always in view; `threshold` is a dotted line at a y, with its label; `origin` adds a line at
    x = 0. `size` is that of the print in inches, where it is not that of a column or a page. Panels whose x differ in
    meaning are not `shared_x`: each has the scale and the label of its own axis.
    """

    file: str
    heading: str
    text: str
    axes: tuple[str, str]
    panels: Sequence[Panel]
    logarithmic: bool = field(default=False, kw_only=True)
    include: tuple[float, ...] = field(default=(), kw_only=True)
    threshold: tuple[float, str] | None = field(default=None, kw_only=True)
    origin: bool = field(default=False, kw_only=True)
    across: int = field(default=ACROSS, kw_only=True)
    size: tuple[float, float] | None = field(default=None, kw_only=True)
    shared_x: bool = field(default=True, kw_only=True)

    @property
    def largest(self) -> float:
        """The value that is darkest in all matrices."""
        return max((float(panel.matrix.max()) for panel in self.panels if panel.matrix is not None), default=1.0)

    def colours(self) -> dict[str, str]:
        """Return the colours of all named series, bars and points."""
        lines = [series.name for panel in self.panels for series in panel.series if series.name and not series.colour]
        others = [name for panel in self.panels for name in (*panel.bars, *panel.cloud)]
        return colour_names([*lines, *others])


@dataclass(frozen=True)
class StudyContent:
    """The outcome of a study: a document ready for JSON, its table, its pictures, and all that was measured."""

    title: str
    lead: str
    document: Mapping[str, Any]
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    pictures: Sequence[Picture]
    arrays: Mapping[str, Array]


def mean_series(groups: Mapping[str, Sequence[Points]]) -> list[Series]:
    """Return a series for each group of curves: their mean, in a band of one standard deviation."""
    found = {name: band(curves) for name, curves in groups.items()}
    return [band_series(name, *each) for name, each in found.items()]


def band_series(name: str, x: Sequence[float], means: Sequence[float], spread: Sequence[float]) -> Series:
    """Return a mean in a band; a band of no width is none."""
    return Series(x, means, name=name, spread=spread if any(spread) else ())


def shades(count: int) -> list[str]:
    """Return that many colours from dark to light, for values from the first to the last."""
    mixes = np.linspace(0, 1, count)[:, None]
    return ["#" + "".join(f"{part:02x}" for part in colour) for colour in (DARK + mixes * (LIGHT - DARK)).astype(int)]


def fan(x: Array, table: Array) -> list[Series]:
    """Return a series for every column, shaded from the first to the last."""
    return [Series(x, column, colour) for column, colour in zip(table.T, shades(table.shape[1]), strict=True)]
