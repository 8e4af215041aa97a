"""A deep linear network W_{L+1} W_L … W_1 under cross-entropy: its loss and its gradients, in the paper's notation.

Samples are columns: `x` is the paper's X of shape (d_in, N), `y` holds one-hot labels of shape (C, N).
The loss is the SUM over samples, as in the paper's appendix A.4; that is where Theorem 1 has its factor N from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from feddecorr.errors import UserError

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
