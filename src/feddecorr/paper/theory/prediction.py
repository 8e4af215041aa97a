"""What the paper says about the growth of the singular values of Π = W_L … W_1: Lemma 1, Lemma 2 and Theorem 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from feddecorr.paper.theory.matching import Triplets, decompose, partners
from feddecorr.paper.theory.network import (
    Array,
    Weights,
    class_gradient_matrix,
    layer_gradients,
    product,
    product_gradient,
)


@dataclass(frozen=True)
class Frames:
    """The singular triplets of Π and, in the same order, those of the classifier that go with them."""

    product: Triplets
    classifier: Triplets

    @property
    def overlaps(self) -> Array:
        """|u_kᵀ v_{L+1,k}|: one where Assumption 2 holds, zero where the classifier has no triplet."""
        return np.asarray(np.abs((self.product.left * self.classifier.right).sum(0)).clip(max=1))

    def constants(self, layers: int) -> Array:
        """M_k = σ_{L+1,k}² − σ_k^{2/L}; where Assumption 2 holds at all times, it never changes."""
        return np.asarray(self.classifier.values**2 - np.abs(self.product.values) ** (2 / layers))


def frames(weights: Weights, velocity: Array | None = None) -> Frames:
    """Return the frames of a network, by rank; with Π's time derivative, ties are split along it."""
    *layers, classifier = weights
    found = decompose(product(layers), velocity)
    return Frames(found, partners(found, classifier))


def velocity_by_layers(layers: Sequence[Array], gradient: Array) -> Array:
    """Return Π̇ under the flow from ∂ℓ/∂Π: the chain rule over the layers, whether balanced or not."""
    moves = layer_gradients(layers, gradient)
    parts = [product([*layers[:j], move, *layers[j + 1 :]]) for j, move in enumerate(moves)]
    return np.asarray(-np.sum(parts, axis=0))


def growth_by_lemma1(triplets: Triplets, velocity: Array) -> Array:
    """Return σ̇_k = u_kᵀ Π̇ v_k."""
    return np.asarray(np.einsum("ik,ij,jk->k", triplets.left, velocity, triplets.right))


def growth_by_lemma2(triplets: Triplets, gradient: Array, layers: int) -> Array:
    """Return σ̇_k = −L σ_k^{2−2/L} u_kᵀ (∂ℓ/∂Π) v_k, which needs balanced layers and nothing of the classifier."""
    return -layers * np.abs(triplets.values) ** (2 - 2 / layers) * growth_by_lemma1(triplets, gradient)


def predicted_growth(
    weights: Weights,
    x: Array,
    y: Array,
    *,
    at: Frames | None = None,
    constants: Array | float | None = None,
    matrix: Array | None = None,
) -> Array:
    """Return σ̇_k by Theorem 1: N L σ_k^{2−2/L} √(σ_k^{2/L} + M_k) u_{L+1,k}ᵀ G v_k (equation 3).

    By default the frames, the constants M_k and the matrix G are those of the weights. Where a constant from
    elsewhere makes the argument of the root negative, the root counts as zero.
    """
    layers = len(weights) - 1
    at = at or frames(weights, velocity_by_layers(weights[:-1], product_gradient(weights, x, y)))
    known = at.constants(layers) if constants is None else constants
    g = class_gradient_matrix(weights, x, y) if matrix is None else matrix
    values = np.abs(at.product.values)
    root = np.sqrt((values ** (2 / layers) + known).clip(min=0))
    along = np.einsum("ck,cj,jk->k", at.classifier.left, g, at.product.right)
    return np.asarray(x.shape[1] * layers * values ** (2 - 2 / layers) * root * along)
