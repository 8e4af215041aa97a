"""Gradient flow: gradient descent with an infinitesimally small learning rate, integrated to solver accuracy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch
from scipy.integrate import DOP853

from feddecorr.core.randomness import threads
from feddecorr.errors import RunError, UserError
from feddecorr.loss.decorrelation import Normalization, feddecorr
from feddecorr.paper.theory.network import Array, FlowTerm, Weights, check, gradients

ProgressCallback = Callable[[float], None]
"""Receives which share of the work is done, from 0 to 1."""


def no_progress(_share: float) -> None:
    """Report nothing."""


def partial_progress(progress: ProgressCallback, start: float, stop: float) -> ProgressCallback:
    """Return the callback for a part of the work, which goes from one share of the whole to another."""

    def report(share: float) -> None:
        progress(start + share * (stop - start))

    return report


RELATIVE_TOLERANCE = 1e-12
ABSOLUTE_TOLERANCE = 1e-14


def flow(
    weights: Weights, x: Array, y: Array, times: Sequence[float] | Array, term: FlowTerm | None = None
) -> list[Weights]:
    """Integrate Ẇ_j = −∂ℓ/∂W_j (equation 1) and return the weights at each of `times`.

    The weights given are those at the first time. Times may also run backwards.
    """
    return list(integrate(weights, x, y, times, term))


def integrate(
    weights: Weights,
    x: Array,
    y: Array,
    times: Sequence[float] | Array,
    term: FlowTerm | None = None,
    progress: ProgressCallback = no_progress,
) -> Iterator[Weights]:
    """Yield what `flow` returns, each as soon as the solver has passed its time; the progress hears of every step."""
    check(weights, x, y)
    first, last = float(times[0]), float(times[-1])
    direction = 1 if last > first else -1
    if not all(direction * (later - sooner) > 0 for sooner, later in pairwise(times)):
        raise UserError(f"times have to be different and in order, forwards or backwards, not {list(times)}")
    shapes = [matrix.shape for matrix in weights]
    edges = np.cumsum([0, *(matrix.size for matrix in weights)])
    places = [slice(start, stop) for start, stop in pairwise(edges)]

    def unpack(state: Array) -> Weights:
        return tuple(state[place].reshape(shape) for place, shape in zip(places, shapes, strict=True))

    def velocity(_time: float, state: Array) -> Array:
        return -_pack(gradients(unpack(state), x, y, term))

    solver = DOP853(velocity, first, _pack(weights), last, rtol=RELATIVE_TOLERANCE, atol=ABSOLUTE_TOLERANCE)
    ahead = list(times)
    while ahead:
        if message := solver.step():
            raise RunError(f"the flow could not be integrated beyond time {solver.t:g}: {message}")
        progress((solver.t - first) / (last - first or 1.0))
        passed = [time for time in ahead if direction * (solver.t - time) >= 0]
        if passed:
            between = solver.dense_output()
            yield from (unpack(between(time)) for time in passed)
        ahead = ahead[len(passed) :]


def _pack(matrices: Weights) -> Array:
    return np.concatenate([matrix.ravel() for matrix in matrices])


def decorrelation_term(beta: float, normalization: Normalization) -> FlowTerm:
    """Return the gradient of N·β·L_FedDecorr by the representations: N, because the flow follows the summed loss."""

    @threads(1)  # matrices this small only wait for more
    def term(z: Array) -> Array:
        columns = torch.from_numpy(np.ascontiguousarray(z.T)).requires_grad_()
        loss = z.shape[1] * beta * feddecorr(columns, normalization)
        (gradient,) = torch.autograd.grad(loss, columns)
        return np.asarray(gradient.numpy().T)

    return term
