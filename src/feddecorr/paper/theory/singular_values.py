"""Singular values that can be followed in time, and what the paper says of their growth: Lemmas 1 and 2, Theorem 1.

A singular value decomposition names its vectors by rank and leaves their signs open, and in a tie even the vectors
themselves. What a derivative is taken of has to be continuous instead (the analytic decomposition of Bunse-Gerstner
and others, 1991): values may cross each other, and may pass through zero and change their sign.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import polar
from scipy.optimize import linear_sum_assignment

from feddecorr.paper.theory.network import (
    Array,
    Weights,
    class_gradient_matrix,
    layer_gradients,
    product,
    product_gradient,
)

TIE = 1e-9
"""Singular values closer than this share of the largest are taken as tied, and below it as zero."""

BEYOND_DOUBT = 0.7
"""Two unit vectors with an overlap above this are the same direction: no third can be as near to either."""


@dataclass(frozen=True)
class Triplets:
    """Singular triplets as columns and entries: matrix = left · diag(values) · rightᵀ."""

    left: Array
    values: Array
    right: Array

    def __len__(self) -> int:
        return len(self.values)


def spectrum(matrix: Array) -> Array:
    """Return the singular values, largest first."""
    return np.asarray(np.linalg.svd(matrix, compute_uv=False), dtype=np.float64)


def decompose(matrix: Array, velocity: Array | None = None) -> Triplets:
    """Return the singular triplets, largest value first.

    With the matrix's time derivative, tied vectors are those into which the tie is about to split; only along these
    is the derivative of a singular value what Lemma 1 says.
    """
    left, values, right = np.linalg.svd(matrix)
    size = len(values)
    for tied in ties(values) if velocity is not None else ():
        if values[tied.start] > TIE * values[0]:
            block = left[:, tied].T @ velocity @ right[tied].T
            _, axes = np.linalg.eigh(-(block + block.T))
            left[:, tied], right[tied] = left[:, tied] @ axes, axes.T @ right[tied]
        else:  # The null spaces of both sides are free of each other, and one may be larger: take all of both.
            null = slice(tied.start, None)
            a, _, b = np.linalg.svd(left[:, null].T @ velocity @ right[null].T)
            left[:, null], right[null] = left[:, null] @ a, b @ right[null]
    return Triplets(left[:, :size], values, right[:size].T)


def ties(values: Array) -> Iterator[slice]:
    """Yield the groups of two or more tied values; all zeros are one group, also when it is only one."""
    apart = np.flatnonzero(-np.diff(values) > TIE * values[0]) + 1
    for start, stop in zip([0, *apart], [*apart, len(values)], strict=True):
        if stop - start > 1 or values[start] <= TIE * values[0]:
            yield slice(int(start), int(stop))


def follow(before: Triplets, now: Triplets) -> Triplets:
    """Return the triplets of now in the order and with the signs that continue those of before."""
    lefts, rights = before.left.T @ now.left, before.right.T @ now.right
    rows, order = linear_sum_assignment(np.abs(lefts) + np.abs(rights), maximize=True)
    left_overlap, right_overlap = lefts[rows, order], rights[rows, order]
    together = np.where(left_overlap + right_overlap < 0, -1.0, 1.0)
    sure = np.minimum(np.abs(left_overlap), np.abs(right_overlap)) > BEYOND_DOUBT
    left_signs = np.where(sure, np.sign(left_overlap), together)
    right_signs = np.where(sure, np.sign(right_overlap), together)
    return Triplets(
        now.left[:, order] * left_signs, now.values[order] * left_signs * right_signs, now.right[:, order] * right_signs
    )


def partners(product: Triplets, classifier: Array) -> Triplets:
    """Return, for every triplet of the product, the classifier's triplet in the same direction of the representation.

    That is the one whose right singular vector overlaps most with u_k, by the best assignment of all; its sign is
    such that the overlap is not negative. A classifier has no more triplets than classes: where none is left, all
    of the triplet is zero.
    """
    found = decompose(classifier)
    left, right = found.left.copy(), found.right.copy()
    for tied in ties(found.values):
        overlaps = right[:, tied].T @ product.left
        nearest = np.argsort(-np.linalg.norm(overlaps, axis=0), kind="stable")[: tied.stop - tied.start]
        turn, _ = polar(overlaps[:, nearest])
        left[:, tied], right[:, tied] = left[:, tied] @ turn, right[:, tied] @ turn
    rank = int((found.values > TIE * found.values[0]).sum())
    overlaps = product.left.T @ right[:, :rank]
    rows, order = linear_sum_assignment(np.abs(overlaps), maximize=True)
    signs = np.where(overlaps[rows, order] < 0, -1.0, 1.0)
    matched = Triplets(
        np.zeros((len(left), len(product))), np.zeros(len(product)), np.zeros((len(right), len(product)))
    )
    matched.left[:, rows] = left[:, order] * signs
    matched.right[:, rows] = right[:, order] * signs
    matched.values[rows] = found.values[order]
    return matched


def alignment(below: Array, classifier: Array) -> Array:
    """Return |u_kᵀ v_{L+1,k'}| with k' as row and k as column, as in the paper's figure 6; both by rank.

    The first min(C, d) vectors are compared: a classifier has no more.
    """
    left = np.linalg.svd(below)[0]
    right = np.linalg.svd(classifier, full_matrices=False)[2]
    return np.asarray(np.abs(right @ left[:, : len(right)]))


def alignment_score(matrix: Array) -> float:
    """Return the mean of the diagonal: one where Assumption 2 holds. Of some rows only, give these rows."""
    return float(np.diag(matrix).mean())


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
