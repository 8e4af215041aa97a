"""Small random networks and data for the tests of the theory."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.random import RandomState

from feddecorr.paper.theory.network import Array, Weights, one_hot
from feddecorr.paper.theory.start import aligned_classifier, balanced_start, random_frame


def random_data(stream: RandomState, *, inputs: int, classes: int, samples: int) -> tuple[Array, Array]:
    """Draw inputs and labels without any structure; every class has a sample."""
    labels = np.concatenate([np.arange(classes), stream.randint(classes, size=samples - classes)])
    return stream.normal(size=(inputs, samples)), one_hot(labels, classes)


def random_network(stream: RandomState, widths: list[int]) -> Weights:
    """Draw a network with nothing balanced or aligned."""
    return tuple(stream.normal(size=(after, before)) / np.sqrt(before) for before, after in pairwise(widths))


def balanced_layers(stream: RandomState, widths: list[int], values: Array) -> Weights:
    """Draw layers that satisfy Assumption 1."""
    return balanced_start(values, [random_frame(width, len(values), stream) for width in widths])


def aligned_network(
    stream: RandomState, *, layers: int, values: Array, inputs: int, classes: int, constant: float
) -> Weights:
    """Draw a network that satisfies both assumptions; every layer is as wide as there are values."""
    dim = len(values)
    frames = [random_frame(inputs, dim, stream), *(random_frame(dim, dim, stream) for _ in range(layers))]
    left = random_frame(classes, classes, stream)
    classifier = aligned_classifier(values, left, frames[-1], layers=layers, constant=constant)
    return (*balanced_start(values, frames), classifier)
