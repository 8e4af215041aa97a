"""The colours of all figures: every arm has one of its own, and colour-blind readers tell them apart."""

from __future__ import annotations

import colorsys
from collections.abc import Iterable, Iterator

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

BLUE, RED, AMBER, PURPLE, GREY, BROWN, ORANGE, *_ = COLOURS

ARMS = {
    "none": BLUE,
    "fedavg": BLUE,
    "without FedDecorr": BLUE,
    "feddecorr": RED,
    "fedavg+feddecorr": RED,
    "with FedDecorr": RED,
    "decov": AMBER,
    "structured_decov": PURPLE,
    "feddecorr, dying counted": ORANGE,
    "feddecorr and variance": BROWN,
    "balanced classes": GREY,
    "imbalanced classes": PURPLE,
    "true": BLUE,
    "not true": RED,
    "open": GREY,
    "the paper's value": AMBER,
    "with FedDecorr − without": RED,
}
"""Arms of comparisons, and answers of claims, by the names of their lines: the same colour in every figure."""

GOLDEN = 0.61803398875
"""Of all steps around the colour circle, the one whose multiples never come near each other."""


def colours(count: int) -> list[str]:
    """Return that many colours, no two of them the same; beyond ten, hues that are as far apart as can be."""
    return [COLOURS[place] if place < len(COLOURS) else _hue(place) for place in range(count)]


def colour_names(names: Iterable[str]) -> dict[str, str]:
    """Return a colour for each name: an arm's own, and for others those that no arm among them has."""
    wanted = list(dict.fromkeys(names))
    taken = {ARMS[name] for name in wanted if name in ARMS}
    free: Iterator[str] = (colour for colour in colours(len(wanted) + len(taken)) if colour not in taken)
    return {name: ARMS[name] if name in ARMS else next(free) for name in wanted}


def _hue(place: int) -> str:
    lightness = (0.35, 0.5, 0.65)[place % 3]
    parts = colorsys.hls_to_rgb(place * GOLDEN % 1, lightness, 0.6)
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)
