"""A deep linear network W_{L+1} W_L … W_1 under cross-entropy: its loss, gradients and flow, as the paper writes it.

Samples are columns: `x` is the paper's X of shape (d_in, N), `y` holds one-hot labels of shape (C, N).
The loss is the SUM over samples, as in the paper's appendix A.4; that is where Theorem 1 has its factor N from.
The flow is gradient descent with an infinitesimally small learning rate, integrated to solver accuracy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import accumulate, pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.integrate import DOP853

from feddecorr.core.randomness import threads
from feddecorr.errors import RunError, UserError
from feddecorr.loss.decorrelation import Normalization, feddecorr

Array = NDArray[np.float64]
Weights = tuple[Array, ...]
"""W_1, …, W_L and, last, the classifier W_{L+1}."""

FlowTerm = Callable[[Array], Array]
"""The gradient of a further loss by the representations: (d, N) in, (d, N) out."""


def product(layers: Sequence[Array]) -> Array:
    """Return W_L … W_1, which is the paper's Π for the layers below the classifier."""
    return reduce(lambda below, layer: layer @ below, layers)


def one_hot(labels: NDArray[np.int64], classes: int) -> Array:
    """Return labels as one-hot columns."""
    return np.eye(classes)[:, labels]


def probabilities(weights: Weights, x: Array) -> Array:
    """Return γ, the softmax of the logits, of shape (C, N)."""
    logits = product(weights) @ x
    powers = np.exp(logits - logits.max(0))
    return np.asarray(powers / powers.sum(0))


def loss(weights: Weights, x: Array, y: Array) -> float:
    """Return the cross-entropy, summed over samples."""
    logits = product(weights) @ x
    top = logits.max(0)
    return float((top + np.log(np.exp(logits - top).sum(0)) - (y * logits).sum(0)).sum())


def class_gradient_matrix(weights: Weights, x: Array, y: Array) -> Array:
    """Return G = (y − γ)Xᵀ/N, of shape (C, d_in): the matrix that drives the growth of the singular values."""
    return np.asarray((y - probabilities(weights, x)) @ x.T / x.shape[1])


def class_means_matrix(weights: Weights, x: Array, y: Array) -> Array:
    """Return G as the paper prints it (equation 4): Σ_c μ_c (e_c − γ̄_c) X̄_cᵀ.

    It is G only where γ and X don't vary together within a class, as when all inputs of a class are the same;
    in general it lacks −Σ_c μ_c Cov_c(γ, X). A class without samples adds nothing.
    """
    gamma = probabilities(weights, x)
    found = np.zeros((len(y), len(x)))
    for c, members in enumerate(y.astype(bool)):
        if members.any():
            pull = np.eye(len(y))[c] - gamma[:, members].mean(1)
            found += members.mean() * np.outer(pull, x[:, members].mean(1))
    return found


def representation_covariance(weights: Weights, x: Array) -> Array:
    """Return Σ = Π Cov(X) Πᵀ, the covariance of the representations, with 1/N (equation 5)."""
    z = product(weights[:-1]) @ x
    centred = z - z.mean(1, keepdims=True)
    return np.asarray(centred @ centred.T / x.shape[1])


def product_gradient(weights: Weights, x: Array, y: Array, term: FlowTerm | None = None) -> Array:
    """Return ∂ℓ/∂Π = −W_{L+1}ᵀ (y − γ) Xᵀ, with what a term on the representations adds."""
    *layers, classifier = weights
    gradient = classifier.T @ (probabilities(weights, x) - y) @ x.T
    return gradient if term is None else gradient + term(product(layers) @ x) @ x.T


def layer_gradients(layers: Sequence[Array], gradient: Array) -> list[Array]:
    """Return ∂ℓ/∂W_j for every layer of a product from ∂ℓ/∂Π, by the chain rule."""
    below = list(accumulate(layers[:-1], lambda beneath, layer: layer @ beneath))
    found = []
    for layer, beneath in zip(reversed(layers), reversed(below), strict=False):
        found.append(gradient @ beneath.T)
        gradient = layer.T @ gradient
    return [gradient, *found[::-1]]


def gradients(weights: Weights, x: Array, y: Array, term: FlowTerm | None = None) -> Weights:
    """Return ∂ℓ/∂W_j for every layer and the classifier."""
    *layers, classifier = weights
    below = product(layers)
    residual = (probabilities(weights, x) - y) @ x.T
    above = classifier.T @ residual
    if term is not None:
        above = above + term(below @ x) @ x.T
    return (*layer_gradients(layers, above), residual @ below.T)


def check(weights: Weights, x: Array, y: Array) -> None:
    """Refuse arrays that do not fit together."""
    if len(weights) < 2:
        raise UserError(f"a network has at least one layer and a classifier, but {len(weights)} matrices were given")
    widths = [x.shape[0], *(matrix.shape[0] for matrix in weights)]
    for number, (matrix, width) in enumerate(zip(weights, widths, strict=False), start=1):
        if matrix.shape[1] != width:
            raise UserError(f"W_{number} takes {matrix.shape[1]} inputs, but {width} come from below")
    if y.shape != (widths[-1], x.shape[1]):
        raise UserError(f"labels have the shape {y.shape}, but (classes, samples) = {(widths[-1], x.shape[1])}")


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
