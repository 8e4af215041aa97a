"""A picture as plain values, from which both the page and the printed figures are drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

DARK, LIGHT = np.array([18, 52, 110]), np.array([150, 200, 235])


@dataclass(frozen=True)
class Series:
    """A line, or only its points; without a name it is not in the legend.

    With a `spread`, a band reaches so far above and below it.
    """

    x: Sequence[float] | Array
    y: Sequence[float] | Array
    colour: str
    name: str = ""
    points: bool = False
    spread: Sequence[float] | Array = ()


@dataclass(frozen=True)
class Panel:
    """A titled set of lines, a matrix of shades, or points on the unit sphere by name.

    A matrix is drawn from light (0) to dark (the largest value of all panels, or 1); `names` are those of its columns
    and rows, by default numbers from 1.
    """

    title: str
    lines: Sequence[Series] = ()
    matrix: Array | None = None
    names: tuple[Sequence[str], Sequence[str]] | None = None
    cloud: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class Picture:
    """Panels side by side with common axes; `file` is its name without ending.

    The y in `include` are always in view; `threshold` is a dotted line at a y, with what it says.
    """

    file: str
    heading: str
    text: str
    axes: tuple[str, str]
    panels: Sequence[Panel]
    logarithmic: bool = field(default=False, kw_only=True)
    include: tuple[float, ...] = field(default=(), kw_only=True)
    threshold: tuple[float, str] | None = field(default=None, kw_only=True)


def shades(count: int) -> list[str]:
    """Return that many colours from dark to light, for values from the first to the last."""
    mixes = np.linspace(0, 1, count)[:, None]
    return ["#" + "".join(f"{part:02x}" for part in colour) for colour in (DARK + mixes * (LIGHT - DARK)).astype(int)]


def fan(x: Array, table: Array) -> list[Series]:
    """Return a line for every column, shaded from the first to the last."""
    return [Series(x, column, colour) for column, colour in zip(table.T, shades(table.shape[1]), strict=True)]
