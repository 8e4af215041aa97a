"""Assumption 2, measured: how the classifier's right singular vectors agree with the left ones of Π."""

from __future__ import annotations

import numpy as np

from feddecorr.paper.theory.network import Array


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
