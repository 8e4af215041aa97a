"""Data and starts."""

from itertools import pairwise

import numpy as np
import pytest
from linear_networks import aligned_network, balanced_layers
from numpy.random import RandomState
from pydantic import ValidationError

from feddecorr.errors import UserError
from feddecorr.paper.theory.measurement import imbalance_of_layers
from feddecorr.paper.theory.network import Array, product
from feddecorr.paper.theory.singular_values import alignment, alignment_score, spectrum
from feddecorr.paper.theory.start import (
    aligned_classifier,
    balanced_start,
    class_sizes,
    draw_data,
    draw_start,
    random_frame,
)
from feddecorr.paper.theory_settings import Alignment, Flow, Network


@pytest.mark.parametrize("layers", [1, 2, 3, 5])
def test_a_balanced_start_is_balanced_and_has_the_singular_values(layers: int) -> None:
    """W_{j+1}ᵀW_{j+1} = W_jW_jᵀ for layers of any widths, and the product's singular values are as asked."""
    values = np.array([2.0, 0.7, 0.1])
    weights = balanced_layers(RandomState(layers), [7, 4, 6, 3, 5, 8][: layers + 1], values)
    for below, above in pairwise(weights):
        np.testing.assert_allclose(above.T @ above, below @ below.T, atol=1e-14)
    np.testing.assert_allclose(spectrum(product(weights))[:3], values, rtol=1e-12)


@pytest.mark.parametrize(("constant", "classes"), [(-0.25, 3), (0.0, 5), (0.4, 6)])
def test_an_aligned_classifier_differs_from_the_layer_below_by_a_multiple_of_one(constant: float, classes: int) -> None:
    """W_{L+1}ᵀW_{L+1} = W_LW_Lᵀ + M·I for M below, at and above zero."""
    values = np.array([2.0, 1.0, 0.8, 0.25, 0.25])
    weights = aligned_network(RandomState(0), layers=2, values=values, inputs=9, classes=classes, constant=constant)
    gap = weights[-1].T @ weights[-1] - weights[-2] @ weights[-2].T
    np.testing.assert_allclose(gap, constant * np.eye(5), atol=1e-14)


def test_what_cannot_be_aligned_is_refused() -> None:
    """The constant and the values must leave a classifier of a rank that there can be."""
    stream = RandomState(0)
    values = np.array([1.0, 0.5, 0.25])
    left, right = random_frame(2, 2, stream), random_frame(3, 3, stream)
    with pytest.raises(UserError, match="M must not be below"):
        aligned_classifier(values, left, right, layers=1, constant=-0.5)
    with pytest.raises(UserError, match="beyond the 2 left singular vectors"):
        aligned_classifier(values, left, right, layers=1, constant=0.0)
    with pytest.raises(UserError, match="a singular value for each of 4 dimensions"):
        aligned_classifier(values, left, random_frame(4, 3, stream), layers=1, constant=-0.1)


def test_what_cannot_be_balanced_is_refused() -> None:
    """Frames must have a column for each value, and values are not negative."""
    frame = np.eye(3)
    with pytest.raises(UserError, match="2 singular values need two or more frames"):
        balanced_start(np.ones(2), [frame, frame])
    with pytest.raises(UserError, match="not negative, but one is -1"):
        balanced_start(np.array([1.0, 1.0, -1.0]), [frame, frame])
    with pytest.raises(UserError, match="4 orthonormal vectors"):
        random_frame(3, 4, RandomState(0))


@pytest.mark.parametrize("imbalance", [0.0, 0.05, 0.3, 1.0])
@pytest.mark.parametrize("frequent", [1, 3, 7])
def test_class_sizes_share_out_all_samples(imbalance: float, frequent: int) -> None:
    """Sizes add up, and each is within one of its exact share."""
    sizes = class_sizes(101, 7, frequent, imbalance)
    shares = np.array([1.0] * frequent + [imbalance] * (7 - frequent))
    assert sizes.sum() == 101
    assert np.abs(sizes - 101 * shares / shares.sum()).max() < 1


def test_class_means_do_not_depend_on_the_sizes() -> None:
    """What differs between balanced and imbalanced data is how many samples there are, not where the classes lie."""
    settings = Network(noise=0.0, dim=4, classes=3)
    few, y_few = draw_data(settings, np.array([1, 1, 1]), "one")
    many, y_many = draw_data(settings, np.array([5, 0, 2]), "other")
    np.testing.assert_array_equal(few[:, [0, 0, 0, 0, 0, 2, 2]], many)
    np.testing.assert_array_equal(y_few[:, [0, 0, 0, 0, 0, 2, 2]], y_many)
    np.testing.assert_allclose(few.T @ few, 4 * np.eye(3), atol=1e-12)


@pytest.mark.parametrize("start", ["aligned", "turned"])
@pytest.mark.parametrize(("dim", "classes"), [(6, 3), (3, 6), (4, 4)])
def test_starts_satisfy_the_assumptions(start: str, dim: int, classes: int) -> None:
    """Layers are balanced and the classifier differs from the last by M·I, for d above, below and at C."""
    settings = Network(start=start, dim=dim, classes=classes, layers=3, inputs=7, samples=40)
    x, y = draw_data(settings, class_sizes(40, classes, 1, 0.2), "training")
    weights = draw_start(settings, x, y)
    assert imbalance_of_layers(weights[:-1]) < 1e-14
    gap = weights[-1].T @ weights[-1] - weights[-2] @ weights[-2].T
    np.testing.assert_allclose(gap, -(0.25 ** (2 / 3)) * np.eye(dim), atol=1e-14)


def test_a_random_start_is_balanced_but_not_aligned() -> None:
    """Only Assumption 2 fails."""
    settings = Network(start="random")
    x, y = draw_data(settings, class_sizes(200, 10, 10, 1.0), "training")
    weights = draw_start(settings, x, y)
    assert imbalance_of_layers(weights[:-1]) < 1e-14
    assert alignment_score(alignment(product(weights[:-1]), weights[-1])) < 0.5


def test_settings_that_do_not_fit_are_refused() -> None:
    """The message says what would be right."""
    with pytest.raises(ValidationError, match="inputs must be at least dim = 20"):
        Network(inputs=5)
    with pytest.raises(ValidationError, match="samples must be at least classes = 10"):
        Network(samples=9)
    with pytest.raises(ValidationError, match="frequent must be at most classes = 10"):
        Flow(frequent=11)
    assert Alignment.model_validate({"epochs": "3,5"}).epochs == (3, 5)


@pytest.mark.parametrize(("dim", "classes"), [(6, 3), (3, 6), (4, 4)])
def test_an_aligned_start_does_not_depend_on_the_library(
    dim: int, classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that chose other signs, and other vectors where G is zero, would give the same start."""
    settings = Network(dim=dim, classes=classes, inputs=7, samples=40)
    x, y = draw_data(settings, class_sizes(40, classes, 1, 0.2), "training")
    weights = draw_start(settings, x, y)
    decompose = np.linalg.svd
    stream = np.random.RandomState(0)

    def decompose_otherwise(matrix: Array) -> tuple[Array, Array, Array]:
        left, sizes, right = decompose(matrix)
        signs = stream.choice([-1.0, 1.0], size=len(sizes))
        left[:, : len(sizes)] *= signs
        right[: len(sizes)] *= signs[:, None]
        unseen = int((sizes > 1e-12 * sizes[0]).sum())
        free = len(right) - unseen
        right[unseen:] = np.linalg.qr(stream.normal(size=(free, free)))[0] @ right[unseen:]
        return left, sizes, right

    monkeypatch.setattr(np.linalg, "svd", decompose_otherwise)
    for before, after in zip(weights, draw_start(settings, x, y), strict=True):
        np.testing.assert_allclose(after, before, atol=1e-12)
