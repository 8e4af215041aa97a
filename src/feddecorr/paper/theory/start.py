"""Data and starts: those of a study, drawn from its settings, and starts that satisfy the theorem's assumptions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from feddecorr.core.randomness import frozen_stream
from feddecorr.errors import UserError
from feddecorr.paper.theory.network import Array, Weights, class_gradient_matrix, one_hot
from feddecorr.paper.theory_settings import Network

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
    """Return left and right singular vectors as frames, the right with that many columns; the same on every machine.

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


LENGTH_OF_MEANS = 2.0

LEAD = 2.0
"""Singular values that the classifier sees begin this many times as large as those that it doesn't see."""


def class_sizes(samples: int, classes: int, frequent: int, imbalance: float) -> NDArray[np.int64]:
    """Return the numbers of samples per class, frequent classes first; fractions go to the largest remainders."""
    shares = np.where(np.arange(classes) < frequent, 1.0, imbalance)
    exact = samples * shares / shares.sum()
    sizes = np.floor(exact + 1e-9).astype(np.int64)
    sizes[np.argsort(sizes - exact, kind="stable")[: samples - sizes.sum()]] += 1
    return np.asarray(sizes)


def draw_data(settings: Network, sizes: NDArray[np.int64], purpose: str) -> tuple[Array, Array]:
    """Return inputs x (d_in, N) and one-hot labels y (C, N): Gaussian classes around means as orthogonal as can be.

    The means depend on the seed alone, the samples on the purpose too.
    """
    size = max(settings.input_dim, settings.classes)
    means = random_frame(size, size, frozen_stream(settings.seed, "theory/means"))[
        : settings.input_dim, : settings.classes
    ]
    labels = np.repeat(np.arange(settings.classes), sizes)
    noise = frozen_stream(settings.seed, f"theory/{purpose}").normal(size=(settings.input_dim, len(labels)))
    return LENGTH_OF_MEANS * means[:, labels] + settings.noise * noise, one_hot(labels, settings.classes)


def draw_start(settings: Network, x: Array, y: Array) -> Weights:
    """Return W_1, …, W_{L+1}: always balanced layers; a classifier that is aligned with them or drawn at random.

    With the smallest singular value s of Π, M is −s^{2/L}. All singular values but the first min(C, d) are s: the
    classifier doesn't see them, and the flow leaves them as they are.
    """
    stream = frozen_stream(settings.seed, "theory/start")
    values = np.full(settings.dim, settings.scale)
    values[: settings.classes] *= LEAD
    middle = [random_frame(settings.dim, settings.dim, stream) for _ in range(settings.layers)]
    right = random_frame(settings.input_dim, settings.dim, stream)
    left = random_frame(settings.classes, settings.classes, stream)
    root = settings.scale ** (1 / settings.layers)
    if settings.start == "random":
        classifier = root * stream.normal(size=(settings.classes, settings.dim)) / np.sqrt(settings.dim)
        return (*balanced_start(values, [right, *middle]), classifier)
    if settings.start == "aligned":
        nothing = (np.zeros((settings.dim, settings.input_dim)), np.zeros((settings.classes, settings.dim)))
        left, right = singular_frames(class_gradient_matrix(nothing, x, y), settings.dim, stream)
    classifier = aligned_classifier(values, left, middle[-1], layers=settings.layers, constant=-(root**2))
    return (*balanced_start(values, [right, *middle]), classifier)
