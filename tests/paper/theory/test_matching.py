"""Singular vectors that are followed in time, and their alignment."""

import numpy as np
import pytest
from linear_networks import aligned_network, balanced_layers
from numpy.random import RandomState

from feddecorr.paper.theory.network import product
from feddecorr.paper.theory.singular_values import (
    Triplets,
    alignment,
    alignment_score,
    decompose,
    follow,
    growth_by_lemma1,
    partners,
    spectrum,
)
from feddecorr.paper.theory.start import random_frame


def test_triplets_make_up_the_matrix() -> None:
    """The matrix is left · diag(values) · rightᵀ, for tall and wide ones."""
    for shape in [(5, 3), (3, 5)]:
        matrix = RandomState(0).normal(size=shape)
        found = decompose(matrix, matrix)
        np.testing.assert_allclose(found.left * found.values @ found.right.T, matrix, atol=1e-14)


def test_values_are_followed_where_they_cross() -> None:
    """Two singular values that pass each other keep their vectors, and so their names."""
    left, right = random_frame(5, 2, RandomState(1)), random_frame(4, 2, RandomState(2))
    now = first = decompose(left * [2.0, 1.0] @ right.T)
    for time in np.linspace(0, 1, 8):
        now = follow(now, decompose(left * [2.0 - time, 1.0 + time] @ right.T))
    np.testing.assert_allclose(now.values[:2], [1.0, 2.0], atol=1e-14)
    np.testing.assert_allclose(now.left[:, :2], first.left[:, :2], atol=1e-12)


def test_a_value_that_passes_through_zero_becomes_negative() -> None:
    """Its vectors stay as they were; the plain decomposition would turn one of them around."""
    left, right = random_frame(5, 2, RandomState(1)), random_frame(4, 2, RandomState(2))
    now = first = decompose(left * [2.0, 0.5] @ right.T)
    for value in (0.25, -0.25):
        now = follow(now, decompose(left * [2.0, value] @ right.T))
    np.testing.assert_allclose(now.values[:2], [2.0, -0.25], atol=1e-14)
    np.testing.assert_allclose(now.right[:, :2], first.right[:, :2], atol=1e-12)


def test_signs_and_order_of_a_decomposition_do_not_matter() -> None:
    """Shuffled triplets with other signs are put back as they were."""
    found = decompose(RandomState(3).normal(size=(4, 4)))
    order, signs = [2, 0, 3, 1], np.array([1.0, -1.0, -1.0, 1.0])
    shuffled = Triplets(found.left[:, order] * signs, found.values[order], found.right[:, order] * signs)
    back = follow(found, shuffled)
    np.testing.assert_array_equal(back.values, found.values)
    np.testing.assert_array_equal(back.left, found.left)


def test_a_turn_by_more_than_a_right_angle_does_not_make_a_value_negative() -> None:
    """A value changes sign only where both vectors are recognised beyond doubt."""
    before = Triplets(np.eye(2), np.array([2.0, 1.0]), np.eye(2))
    angle = 1.9
    turned = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    after = follow(before, Triplets(turned, np.array([2.0, 1.0]), np.eye(2)))
    assert (after.values > 0).all()


def test_a_tie_is_split_as_time_will_split_it() -> None:
    """At a tie, Lemma 1 gives the growth of the values only along the vectors into which the tie splits."""
    stream = RandomState(4)
    left, right = random_frame(5, 3, stream), random_frame(4, 3, stream)
    matrix, velocity = left * [2.0, 1.0, 1.0] @ right.T, stream.normal(size=(5, 4))
    step = 1e-6
    after = np.linalg.svd(matrix + step * velocity, compute_uv=False)[:3]
    found = decompose(matrix, velocity)
    growth = growth_by_lemma1(found, velocity)[:3]
    np.testing.assert_allclose(growth, (after - [2.0, 1.0, 1.0]) / step, atol=1e-4)


def test_zeros_grow_by_the_velocity_between_the_null_spaces() -> None:
    """Vanishing values leave zero at the speeds that the velocity has there, also where one null space is larger."""
    stream = RandomState(5)
    left, right = random_frame(3, 3, stream), random_frame(6, 6, stream)
    matrix, velocity = left[:, :1] * 2.0 @ right[:, :1].T, stream.normal(size=(3, 6))
    step = 1e-6
    after = np.linalg.svd(matrix + step * velocity, compute_uv=False)
    growth = growth_by_lemma1(decompose(matrix, velocity), velocity)
    np.testing.assert_allclose(growth, (after - [2.0, 0.0, 0.0]) / step, atol=1e-4)


@pytest.mark.parametrize("values", [[2.0, 1.0, 0.8, 0.5, 0.5], [1.0, 1.0, 1.0, 0.5, 0.5]])
def test_partners_are_found_among_tied_values(values: list[float]) -> None:
    """Every triplet of Π gets the classifier's triplet in its direction, ties or not, with a positive overlap."""
    weights = aligned_network(RandomState(6), layers=2, values=np.array(values), inputs=7, classes=3, constant=-0.5)
    below = decompose(product(weights[:-1]))
    found = partners(below, weights[-1])
    np.testing.assert_allclose((below.left * found.right).sum(0), [1, 1, 1, 0, 0], atol=1e-12)
    np.testing.assert_allclose(found.values**2 - below.values, -0.5, atol=1e-12)
    np.testing.assert_allclose(found.left * found.values @ found.right.T, weights[-1], atol=1e-12)


def test_a_classifier_of_zeros_has_no_partners() -> None:
    """Nothing is matched with nothing."""
    found = partners(decompose(np.diag([2.0, 1.0])), np.zeros((3, 2)))
    np.testing.assert_array_equal(found.values, 0)
    np.testing.assert_array_equal(found.left, 0)


def test_aligned_networks_have_the_identity() -> None:
    """Under Assumption 2, |u_kᵀ v_{L+1,k'}| is one for k = k' and zero else."""
    values = np.array([2.0, 1.0, 0.8, 0.5, 0.5])
    weights = aligned_network(RandomState(0), layers=2, values=values, inputs=7, classes=3, constant=-0.5)
    matrix = alignment(product(weights[:-1]), weights[-1])
    np.testing.assert_allclose(matrix, np.eye(3), atol=1e-7)
    assert alignment_score(matrix) > 1 - 1e-7


def test_rows_are_the_classifier_and_columns_the_product() -> None:
    """Exchanging two directions of the classifier exchanges rows."""
    below = np.diag([3.0, 2.0, 1.0])
    classifier = np.diag([1.0, 2.0, 3.0])[:, [1, 0, 2]]
    np.testing.assert_allclose(alignment(below, classifier), np.eye(3)[[2, 0, 1]], atol=1e-12)
    assert alignment_score(alignment(below, classifier)) == 0


def test_misalignment_is_bounded_by_what_the_flow_keeps() -> None:
    """|u_kᵀ v_{L+1,k'}| · |σ_{L+1,k'}² − c − σ_k^{2/L}| ≤ ‖H − c·I‖ with H = W_{L+1}ᵀW_{L+1} − W_LW_Lᵀ, for any c."""
    stream = RandomState(0)
    below = balanced_layers(stream, [6, 5, 5], np.array([3.0, 2.0, 1.0, 0.5, 0.2]))
    classifier = stream.normal(size=(4, 5))
    kept = classifier.T @ classifier - below[-1] @ below[-1].T
    found = alignment(product(below), classifier)
    for c in (-1.0, 0.0, 0.5):
        gaps = np.abs((spectrum(classifier) ** 2)[:, None] - c - spectrum(product(below))[None, :4])
        assert (found * gaps <= np.linalg.norm(kept - c * np.eye(5), 2) + 1e-12).all()
    assert found.max() < 0.99
