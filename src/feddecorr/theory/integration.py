"""Gradient flow: gradient descent with an infinitesimally small learning rate, integrated to solver accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from feddecorr.errors import RunError
from feddecorr.theory.network import Array, Term, Weights, check, gradients
from feddecorr.theory.solvers import solve_ivp

RELATIVE_TOLERANCE = 1e-12
ABSOLUTE_TOLERANCE = 1e-14


def flow(
    weights: Weights, x: Array, y: Array, times: Sequence[float] | Array, term: Term | None = None
) -> list[Weights]:
    """Integrate Ẇ_j = −∂ℓ/∂W_j (equation 1) and return the weights at each of `times`.

    The weights given are those at the first time. Times may also run backwards.
    """
    check(weights, x, y)
    shapes = [matrix.shape for matrix in weights]
    edges = np.cumsum([0, *(matrix.size for matrix in weights)])
    places = [slice(start, stop) for start, stop in pairwise(edges)]

    def unpack(state: Array) -> Weights:
        return tuple(state[place].reshape(shape) for place, shape in zip(places, shapes, strict=True))

    def velocity(_time: float, state: Array) -> Array:
        return -_pack(gradients(unpack(state), x, y, term))

    solved = solve_ivp(
        velocity,
        (times[0], times[-1]),
        _pack(weights),
        method="DOP853",
        t_eval=times,
        rtol=RELATIVE_TOLERANCE,
        atol=ABSOLUTE_TOLERANCE,
    )
    if not solved.success:
        raise RunError(f"the flow could not be integrated beyond time {solved.t[-1]:g}: {solved.message}")
    return [unpack(state) for state in solved.y.T]


def _pack(matrices: Weights) -> Array:
    return np.concatenate([matrix.ravel() for matrix in matrices])
