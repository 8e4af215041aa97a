"""A picture as plain values, from which both the page and the SVG files are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

DARK, LIGHT = np.array([18, 52, 110]), np.array([150, 200, 235])


@dataclass(frozen=True)
class Line:
    """A line, or only its points; without a name it is not in the legend."""

    x: Sequence[float] | Array
    y: Sequence[float] | Array
    colour: str
    name: str = ""
    points: bool = False


@dataclass(frozen=True)
class Panel:
    """A titled set of lines, or a matrix of values from 0 (light) to 1 (dark)."""

    title: str
    lines: Sequence[Line] = ()
    matrix: Array | None = None


@dataclass(frozen=True)
class Picture:
    """Panels side by side with common axes; `file` is its name without ending."""

    file: str
    heading: str
    text: str
    axes: tuple[str, str]
    panels: Sequence[Panel]
    logarithmic: bool = field(default=False, kw_only=True)
    include: tuple[float, ...] = field(default=(), kw_only=True)

    def bounds(self) -> tuple[float, float, float, float]:
        """Return the least and largest x and y of all lines; of a logarithmic y, those above zero count.

        The y in `include` are always in view.
        """
        lines = [line for panel in self.panels for line in panel.lines]
        x = np.concatenate([np.asarray(line.x, float) for line in lines])
        y = np.concatenate([np.asarray(self.include), *(np.asarray(line.y, float) for line in lines)])
        y = y[y > 0] if self.logarithmic else y
        return float(x.min()), float(x.max()), float(y.min(initial=np.inf)), float(y.max(initial=-np.inf))


def shades(count: int) -> list[str]:
    """Return that many colours from dark to light, for values from the first to the last."""
    mixes = np.linspace(0, 1, count)[:, None]
    return ["#" + "".join(f"{part:02x}" for part in colour) for colour in (DARK + mixes * (LIGHT - DARK)).astype(int)]


def fan(x: Array, table: Array) -> list[Line]:
    """Return a line for every column, shaded from the first to the last."""
    return [Line(x, column, colour) for column, colour in zip(table.T, shades(table.shape[1]), strict=True)]
