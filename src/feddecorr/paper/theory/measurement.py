"""A flow as it is measured: singular values, their growth, the theorem's prediction, and what the theorem assumes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from feddecorr.paper.theory.network import (
    Array,
    Weights,
    class_gradient_matrix,
    class_means_matrix,
    flow,
    gradients,
    loss,
    product,
    product_gradient,
)
from feddecorr.paper.theory.singular_values import (
    Frames,
    Triplets,
    decompose,
    follow,
    growth_by_lemma1,
    growth_by_lemma2,
    partners,
    predicted_growth,
    spectrum,
    velocity_by_layers,
)

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


@dataclass(frozen=True)
class Measured:
    """A flow at its recorded times, one row each; columns are the singular values of Π, followed by continuity.

    `growth` is σ̇_k by the chain rule over the layers; `difference` is the same by differences of σ_k along the
    trajectory alone. `theorem` and `lemma2` are the predictions, `printed` is the theorem's with G as the paper
    prints it. `overlaps` says how well Assumption 2 holds for each k (zero: no partner), `constants` are M_k, and
    `imbalance_of_layers` is the largest entry of W_{j+1}ᵀW_{j+1} − W_jW_jᵀ.
    """

    times: Array
    values: Array
    growth: Array
    difference: Array
    theorem: Array
    printed: Array
    lemma2: Array
    overlaps: Array
    constants: Array
    imbalance_of_layers: Array
    spectrum_of_g: Array
    losses: Array


def measure(trajectory: Iterable[Weights], times: Array, x: Array, y: Array) -> Measured:
    """Measure a flow. The theorem is given M as it is at the start."""
    rows: list[list[Array]] = []
    before: Triplets | None = None
    start: Array | None = None
    for weights in trajectory:
        layers = len(weights) - 1
        gradient = product_gradient(weights, x, y)
        velocity = velocity_by_layers(weights[:-1], gradient)
        now = decompose(product(weights[:-1]), velocity)
        now = now if before is None else follow(before, now)
        at = Frames(now, partners(now, weights[-1]))
        constants = at.constants(layers)
        start = constants if start is None else start
        rows.append(
            [
                now.values,
                growth_by_lemma1(now, velocity),
                growth_by_differences(weights, x, y, now),
                predicted_growth(weights, x, y, at=at, constants=start),
                predicted_growth(weights, x, y, at=at, constants=start, matrix=class_means_matrix(weights, x, y)),
                growth_by_lemma2(now, gradient, layers),
                at.overlaps,
                constants,
                imbalance_of_layers(weights[:-1]),
                spectrum(class_gradient_matrix(weights, x, y)),
                np.asarray(loss(weights, x, y), dtype=np.float64),
            ]
        )
        before = now
    return Measured(times, *(np.stack(column) for column in zip(*rows, strict=True)))


def imbalance_of_layers(layers: Sequence[Array]) -> Array:
    """Return the largest entry of W_{j+1}ᵀW_{j+1} − W_jW_jᵀ over all j (Assumption 1 says zero)."""
    gaps = [np.abs(above.T @ above - below @ below.T).max() for below, above in pairwise(layers)]
    return np.asarray(max(gaps, default=0.0))


def relative_error(predicted: Array, measured: Array, floor: float) -> Array:
    """Return |predicted − measured| by the larger of the two, for each row and column.

    A singular value at rest has nothing to compare with: growth below `floor` times the largest of the same row
    counts as that much.
    """
    largest = np.abs(measured).max(-1, keepdims=True)
    scale = np.maximum(np.maximum(np.abs(predicted), np.abs(measured)), floor * largest)
    return np.asarray(np.abs(predicted - measured) / np.maximum(scale, np.finfo(float).tiny))


def total_error(predicted: Array, measured: Array) -> Array:
    """Return Σ_k |predicted − measured| / Σ_k |measured| for each row: the error of what grows."""
    return np.asarray(np.abs(predicted - measured).sum(-1) / np.abs(measured).sum(-1).clip(min=np.finfo(float).tiny))
