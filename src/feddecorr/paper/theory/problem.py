"""The data and the start of a study, drawn from its settings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from feddecorr.core.randomness import frozen_stream
from feddecorr.paper.theory.network import Array, Weights, class_gradient_matrix, one_hot
from feddecorr.paper.theory.settings import Network
from feddecorr.paper.theory.start import aligned_classifier, balanced_start, random_frame, singular_frames

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
