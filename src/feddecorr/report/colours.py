"""The colours of all figures: lines and classes that also colour-blind readers tell apart."""

from __future__ import annotations

import colorsys

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
"""The ten colours that Petroff (2021, arXiv 2107.02270) found by a survey and a model of colour vision."""

GOLDEN = 0.61803398875
"""Of all steps around the colour circle, the one whose multiples never come near each other."""


def colours(count: int) -> list[str]:
    """Return that many colours, no two of them the same; beyond ten, hues that are as far apart as can be."""
    return [COLOURS[place] if place < len(COLOURS) else _hue(place) for place in range(count)]


def _hue(place: int) -> str:
    lightness = (0.35, 0.5, 0.65)[place % 3]
    parts = colorsys.hls_to_rgb(place * GOLDEN % 1, lightness, 0.6)
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)
