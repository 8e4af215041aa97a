"""Starts for which the theorem's assumptions hold, by construction."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from feddecorr.errors import UserError
from feddecorr.paper.theory.network import Array, Weights

ROUNDING = 1e-12
"""Eigenvalues are equal, or zero, up to this share of the largest."""


def random_frame(rows: int, columns: int, stream: np.random.RandomState, given: Array | None = None) -> Array:
    """Draw a matrix with orthonormal columns, uniformly; its first columns are those given, if there are such."""
    if columns > rows:
        raise UserError(f"{columns} orthonormal vectors need at least as many dimensions, but there are {rows}")
    known = np.empty((rows, 0)) if given is None else given[:, :columns]
    drawn = stream.normal(size=(rows, columns - known.shape[1]))
    q, r = np.linalg.qr(np.hstack([known, drawn]))
    return np.asarray(q * np.sign(np.diag(r)))


def singular_frames(matrix: Array, columns: int, stream: np.random.RandomState) -> tuple[Array, Array]:
    """Return left and right singular vectors as frames, the right one of so many columns; the same on every machine.

    What a library of linear algebra is free to choose is settled here: the sign of each pair, by the largest entry
    on the left, and the vectors that the matrix takes to zero, which are drawn.
    """
    left, sizes, right = np.linalg.svd(matrix)
    seen = int((sizes > ROUNDING * sizes[0]).sum())
    left, right = left[:, :seen], right[:seen].T
    signs = np.sign(left[np.abs(left).argmax(0), np.arange(seen)])
    rows = len(matrix)
    return random_frame(rows, rows, stream, left * signs), random_frame(len(right), columns, stream, right * signs)


def random_weights(widths: Sequence[int], stream: np.random.RandomState) -> Weights:
    """Draw layers between these widths as PyTorch does without bias: uniform within ±1/√(inputs)."""
    return tuple(stream.uniform(-1, 1, size=(after, before)) / np.sqrt(before) for before, after in pairwise(widths))


def balanced_start(values: Array, frames: Sequence[Array]) -> Weights:
    """Return W_1, …, W_L whose product has these singular values and which satisfy Assumption 1.

    The frames Q_0, …, Q_L have orthonormal columns, one for each value: W_j = Q_j diag(σ^{1/L}) Q_{j−1}ᵀ.
    Hence W_{j+1}ᵀW_{j+1} = W_jW_jᵀ, and the product is Q_L diag(σ) Q_0ᵀ.
    """
    if len(frames) < 2 or any(frame.shape[1] != len(values) for frame in frames):
        shapes = ", ".join(str(frame.shape) for frame in frames)
        raise UserError(f"{len(values)} singular values need two or more frames of as many columns, not {shapes}")
    if values.min() < 0:
        raise UserError(f"singular values are not negative, but one is {values.min():g}")
    roots = values ** (1 / (len(frames) - 1))
    return tuple(above * roots @ below.T for below, above in pairwise(frames))


def aligned_classifier(values: Array, left: Array, right: Array, *, layers: int, constant: float) -> Array:
    """Return the classifier with W_{L+1}ᵀW_{L+1} = W_LW_Lᵀ + M·I, for `constant` = M.

    The difference of the two sides never changes under the flow, whatever the data (docs/theory.md, section 4).
    So both share their eigenvectors at all times: Assumption 2 holds from the start to the end.

    `values` and `right` are those of `balanced_start`: the singular values and its last frame. The columns of
    `left` (C, …) become the left singular vectors, in the same order.
    """
    squares = values ** (2 / layers) + constant
    tiny = ROUNDING * max(squares.max(), abs(constant))
    if right.shape[0] > right.shape[1] and constant != 0:
        raise UserError(
            f"M = {constant:g} needs a singular value for each of {right.shape[0]} dimensions, zeros included"
        )
    if squares.min() < -tiny:
        raise UserError(
            f"M must not be below −σ^(2/L) = {constant - squares.min():g} of any value, but it is {constant:g}"
        )
    rank = left.shape[1]
    if np.abs(squares[rank:]).max(initial=0) > tiny:
        raise UserError(f"beyond the {rank} left singular vectors, σ^(2/L) has to be −M = {-constant:g}")
    return np.asarray(left[:, : len(values)] * np.sqrt(squares[:rank].clip(min=0)) @ right[:, :rank].T)
