import numpy as np
import pytest
from linear_networks import aligned_network, balanced_layers, random_data, random_network
from numpy.random import RandomState

from feddecorr.paper.theory.network import Array, class_gradient_matrix, product, product_gradient
from feddecorr.paper.theory.singular_values import (
    Frames,
    Triplets,
    decompose,
    frames,
    growth_by_lemma1,
    growth_by_lemma2,
    predicted_growth,
    spectrum,
    velocity_by_layers,
)
from feddecorr.paper.theory.start import ROUNDING

WIDTHS = [7, 4, 6, 3, 5, 8]


def velocity_by_lemma2(below: Array, gradient: Array, layers: int) -> Array:
    """Return Π̇ by Lemma 2, for balanced layers: −Σ_j [ΠΠᵀ]^{(L−j)/L} ∂ℓ/∂Π [ΠᵀΠ]^{(j−1)/L}.

    A power of zero is the identity, on the null space too.
    """
    left, values, right = np.linalg.svd(below)
    values[values < ROUNDING * values[0]] = 0  # A root would make much of a value that is zero but for rounding.
    terms = [
        _power(left, values, 2 * (layers - j) / layers) @ gradient @ _power(right.T, values, 2 * (j - 1) / layers)
        for j in range(1, layers + 1)
    ]
    return np.asarray(-np.sum(terms, axis=0))


def _power(vectors: Array, values: Array, exponent: float) -> Array:
    padded = np.pad(values, (0, len(vectors) - len(values)))
    return np.asarray(vectors * padded**exponent @ vectors.T)


@pytest.mark.parametrize("seed", range(3))
def test_lemma_1(seed: int) -> None:
    """σ̇_k = u_kᵀ Ẇ v_k on any differentiable path, here by differences on a random curve."""
    stream = RandomState(seed)
    a, b, c = (stream.normal(size=(4, 6)) for _ in range(3))
    step = 1e-5
    later, earlier = (spectrum(a + t * b + t**2 * c) for t in (step, -step))
    np.testing.assert_allclose(growth_by_lemma1(decompose(a), b), (later - earlier) / (2 * step), atol=1e-7)


@pytest.mark.parametrize("layers", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("values", [[3.0, 1.0, 0.2], [3.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
def test_lemma_2(layers: int, values: list[float]) -> None:
    """For balanced layers of any widths, fractional powers give what the chain rule gives, at any rank and in ties."""
    stream = RandomState(layers)
    weights = balanced_layers(stream, WIDTHS[: layers + 1], np.array(values))
    gradient = stream.normal(size=(WIDTHS[layers], WIDTHS[0]))
    by_layers = velocity_by_layers(weights, gradient)
    np.testing.assert_allclose(velocity_by_lemma2(product(weights), gradient, layers), by_layers, atol=1e-12)


@pytest.mark.parametrize("layers", [1, 2, 3, 4, 5])
def test_the_closed_form_of_lemma_2(layers: int) -> None:
    """σ̇_k = −L σ_k^{2−2/L} u_kᵀ (∂ℓ/∂Π) v_k for balanced layers, and no more than that is needed."""
    stream = RandomState(layers)
    weights = balanced_layers(stream, WIDTHS[: layers + 1], np.array([3.0, 1.0, 0.2]))
    gradient = stream.normal(size=(WIDTHS[layers], WIDTHS[0]))
    velocity = velocity_by_layers(weights, gradient)
    found = decompose(product(weights), velocity)
    np.testing.assert_allclose(growth_by_lemma2(found, gradient, layers), growth_by_lemma1(found, velocity), atol=1e-11)


def test_lemma_2_needs_balanced_layers() -> None:
    """Without Assumption 1 the closed form is wrong."""
    stream = RandomState(0)
    weights = random_network(stream, [5, 5, 5])
    gradient = stream.normal(size=(5, 5))
    found = decompose(product(weights))
    true = growth_by_lemma1(found, velocity_by_layers(weights, gradient))
    assert np.abs(growth_by_lemma2(found, gradient, 2) - true).max() > 0.1


@pytest.mark.parametrize("layers", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("constant", "classes"), [(-0.3, 3), (0.0, 5), (0.4, 7)])
def test_theorem_1_on_any_data(layers: int, constant: float, classes: int) -> None:
    """Where both assumptions hold, the theorem gives the growth of every singular value, for random data and labels."""
    stream = RandomState(layers)
    values = np.array([2.0, 1.1, 0.8, 0.3, 0.3]) ** (layers / 2)
    weights = aligned_network(stream, layers=layers, values=values, inputs=6, classes=classes, constant=constant)
    x, y = random_data(stream, inputs=6, classes=classes, samples=20)
    velocity = velocity_by_layers(weights[:-1], product_gradient(weights, x, y))
    at = frames(weights, velocity)
    np.testing.assert_allclose(at.constants(layers), constant, atol=1e-12)
    np.testing.assert_allclose(predicted_growth(weights, x, y), growth_by_lemma1(at.product, velocity), atol=1e-10)
    given = predicted_growth(weights, x, y, constants=constant)
    np.testing.assert_allclose(given, growth_by_lemma1(at.product, velocity), atol=1e-6)


def test_beyond_the_classes_singular_values_rest() -> None:
    """The classifier has no more triplets than classes: for all other k, the growth is zero."""
    stream = RandomState(0)
    values = np.array([2.0, 1.0, 0.5, 0.5, 0.5])
    weights = aligned_network(stream, layers=2, values=values, inputs=6, classes=3, constant=-0.5)
    x, y = random_data(stream, inputs=6, classes=3, samples=20)
    velocity = velocity_by_layers(weights[:-1], product_gradient(weights, x, y))
    growth = growth_by_lemma1(decompose(product(weights[:-1]), velocity), velocity)
    np.testing.assert_allclose(np.sort(np.abs(growth))[:2], 0, atol=1e-13)
    assert np.abs(predicted_growth(weights, x, y)).astype(bool).sum() <= 3


def test_the_theorem_needs_the_sign_that_the_paper_leaves_open() -> None:
    """Assumption 2 allows u_kᵀ v_{L+1,k} = −1; then the formula as printed has the wrong sign."""
    stream = RandomState(1)
    weights = aligned_network(stream, layers=2, values=np.array([2.0, 1.0, 0.5]), inputs=5, classes=4, constant=0.1)
    x, y = random_data(stream, inputs=5, classes=4, samples=20)
    right = frames(weights)
    turned = Triplets(-right.classifier.left, right.classifier.values, -right.classifier.right)
    wrong = Frames(right.product, turned)
    np.testing.assert_allclose(wrong.overlaps, 1, atol=1e-12)
    np.testing.assert_allclose(turned.left * turned.values @ turned.right.T, weights[-1], atol=1e-12)
    one, other = (predicted_growth(weights, x, y, at=at) for at in (right, wrong))
    np.testing.assert_allclose(one, -other)
    assert np.abs(one).min() > 0.01


def test_the_theorem_has_its_N_from_the_sum_over_samples() -> None:
    """Every sample twice means twice the growth, with the same G."""
    stream = RandomState(2)
    weights = aligned_network(stream, layers=2, values=np.array([2.0, 1.0]), inputs=5, classes=3, constant=0.1)
    x, y = random_data(stream, inputs=5, classes=3, samples=20)
    twice = np.hstack([x, x]), np.hstack([y, y])
    np.testing.assert_allclose(class_gradient_matrix(weights, *twice), class_gradient_matrix(weights, x, y), atol=1e-14)
    np.testing.assert_allclose(predicted_growth(weights, *twice), 2 * predicted_growth(weights, x, y), rtol=1e-12)


def test_a_matrix_of_rank_one_can_move_every_singular_value() -> None:
    """Orthogonality alone does not make u_kᵀ G v_k small for most k; only Σ_k |u_kᵀ G v_k| ≤ ‖G‖_* holds."""
    g = np.full((6, 6), 1 / 6)
    assert np.linalg.matrix_rank(g) == 1
    identity = Triplets(np.eye(6), np.ones(6), np.eye(6))
    np.testing.assert_allclose(growth_by_lemma1(identity, g), 1 / 6)
    stream = RandomState(3)
    g = stream.normal(size=(5, 7))
    at = decompose(stream.normal(size=(5, 7)))
    assert np.abs(growth_by_lemma1(at, g)).sum() <= spectrum(g).sum()
