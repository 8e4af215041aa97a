"""Growth measured without any formula for it: by differences of singular values along the trajectory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from feddecorr.paper.theory.integration import flow
from feddecorr.paper.theory.matching import Triplets, decompose, follow
from feddecorr.paper.theory.network import Array, Weights, gradients, product

STENCIL = {1: 45 / 60, 2: -9 / 60, 3: 1 / 60}
"""Multiples of the step and their weights in the central difference of sixth order."""

STEPS = (300, 100, 30, 10, 3, 1)
"""Steps in units of UNIT: long ones are ruined by singular values that nearly meet, short ones by rounding."""

UNIT = 2e-4
"""As a share of the time in which the weights or their velocity change by their own size."""


def growth_by_differences(weights: Weights, x: Array, y: Array, now: Triplets) -> Array:
    """Return σ̇_k from σ_k a little earlier and later on the trajectory through these weights.

    `now` are the triplets of Π to follow. For each k, of the steps the one counts that agrees best with the next.
    """
    unit = UNIT * _pace(weights, x, y)
    places = sorted({step * multiple for step in STEPS for multiple in STENCIL})
    sides = [flow(weights, x, y, sign * unit * np.array([0, *places]))[1:] for sign in (1, -1)]
    later, earlier = (dict(zip(places, _values(side, now), strict=True)) for side in sides)
    found = []
    for step in STEPS:
        gaps = [weight * (later[n * step] - earlier[n * step]) for n, weight in STENCIL.items()]
        found.append(np.sum(gaps, axis=0) / (step * unit))
    table = np.stack(found)
    best = np.abs(np.diff(table, axis=0)).argmin(0)
    return np.asarray(np.take_along_axis(table[1:], best[None], axis=0)[0])


def _values(trajectory: list[Weights], now: Triplets) -> Iterator[Array]:
    for weights in trajectory:
        now = follow(now, decompose(product(weights[:-1])))
        yield now.values


def _pace(weights: Weights, x: Array, y: Array) -> float:
    """Return the shortest time in which a layer, or its velocity, would change by its own size."""
    moves = gradients(weights, x, y)
    tiny = 1e-6 * min(map(_ratio, weights, moves))
    bent = gradients(tuple(w - tiny * m for w, m in zip(weights, moves, strict=True)), x, y)
    turns = [(after - before) / tiny for before, after in zip(moves, bent, strict=True)]
    return min(map(_ratio, (*weights, *moves), (*moves, *turns)))


def _ratio(size: Array, change: Array) -> float:
    return float(np.linalg.norm(size) / max(np.linalg.norm(change), np.finfo(float).tiny))
