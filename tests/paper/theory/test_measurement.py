import numpy as np
import pytest
from linear_networks import aligned_network, random_data, random_network
from numpy.random import RandomState

from feddecorr.paper.theory.measurement import Measured, growth_by_differences, measure, relative_error, total_error
from feddecorr.paper.theory.network import Array, Weights, flow, one_hot, product, product_gradient
from feddecorr.paper.theory.singular_values import decompose, growth_by_lemma1, velocity_by_layers
from feddecorr.paper.theory.start import balanced_start, class_sizes, draw_data, draw_start, random_frame
from feddecorr.paper.theory_settings import Network


def _measure(weights: Weights, x: Array, y: Array, *, end: float, points: int = 9) -> Measured:
    times = np.linspace(0, end / x.shape[1], points)
    return measure(flow(weights, x, y, times), times, x, y)


@pytest.mark.parametrize("layers", [1, 2, 3, 4, 5])
def test_the_theorem_holds_along_the_whole_flow(layers: int) -> None:
    """The theorem predicts every growth to 1e-6 on data without any structure, from W_{L+1}ᵀW_{L+1} = W_LW_Lᵀ + M·I.

    Assumption 2 never fails, and M and the balance of the layers are kept.
    """
    stream = RandomState(layers)
    values = np.array([0.9, 0.7, 0.5, 0.25, 0.25])
    constant = -(0.25 ** (2 / layers))
    weights = aligned_network(stream, layers=layers, values=values, inputs=6, classes=3, constant=constant)
    x, y = random_data(stream, inputs=6, classes=3, samples=30)
    found = _measure(weights, x, y, end=10)
    assert relative_error(found.theorem, found.growth, 1e-6).max() < 1e-6
    assert relative_error(found.theorem, found.difference, 1e-4).max() < 1e-6
    assert relative_error(found.lemma2, found.growth, 1e-6).max() < 1e-6
    np.testing.assert_allclose(found.overlaps[:, found.overlaps[0] > 0], 1, atol=1e-9)
    np.testing.assert_allclose(found.constants, constant, atol=1e-10)
    assert found.imbalance_of_layers.max() < 1e-10
    assert np.abs(found.values[-1] - found.values[0]).max() > 0.5


def test_a_start_that_is_aligned_but_for_one_M_does_not_stay_aligned() -> None:
    """With a different M_k for each k, Assumption 2 holds at the start and fails later, and the theorem with it."""
    stream = RandomState(0)
    frames = [random_frame(5, 4, stream), random_frame(4, 4, stream), random_frame(4, 4, stream)]
    layers = balanced_start(np.array([0.9, 0.7, 0.5, 0.3]), frames)
    classifier = random_frame(4, 4, stream) * [0.2, 0.9, 0.4, 0.7] @ frames[-1].T
    x, y = random_data(stream, inputs=5, classes=4, samples=30)
    found = _measure((*layers, classifier), x, y, end=10)
    np.testing.assert_allclose(found.overlaps[0], 1, atol=1e-12)
    assert found.overlaps[1:].min() < 0.9
    assert total_error(found.theorem, found.growth)[0] < 1e-12
    assert total_error(found.theorem, found.growth)[1:].max() > 0.05
    assert relative_error(found.lemma2, found.growth, 1e-6).max() < 1e-6


def test_where_symmetry_holds_the_directions_M_may_differ() -> None:
    """Two groups of classes around opposite pairs of means, one rare: no direction turns, each has its own M_k."""
    labels = np.repeat([0, 1, 2, 3], [20, 20, 2, 2])
    means = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]])
    x, y = means[:, labels], one_hot(labels, 4)
    left = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]]).T / np.sqrt(2)
    layers = balanced_start(np.array([0.5, 0.4]), [np.eye(2)] * 4)
    found = _measure((*layers, left * [0.3, 0.8]), x, y, end=20)
    np.testing.assert_allclose(found.overlaps, 1, atol=1e-12)
    np.testing.assert_allclose(found.constants, np.tile(found.constants[0], (9, 1)), atol=1e-11)
    assert found.constants[0, 0] < 0 < found.constants[0, 1]
    assert relative_error(found.theorem, found.growth, 1e-6).max() < 1e-6
    assert found.values[-1, 0] > 2 * found.values[-1, 1]


def test_a_random_start_aligns_as_it_grows() -> None:
    """From a small random start, what grows becomes aligned, and the theorem's error falls with it."""
    settings = Network(start="random", dim=6, classes=4, samples=40, scale=0.01)
    x, y = draw_data(settings, class_sizes(40, 4, 4, 1.0), "training")
    found = _measure(draw_start(settings, x, y), x, y, end=60)
    speeds = np.abs(found.growth)
    aligned = (speeds * found.overlaps).sum(1) / speeds.sum(1)
    error = total_error(found.theorem, found.growth)
    assert aligned[0] < 0.85
    assert aligned[-1] > 0.99
    assert error[0] > 0.2
    assert error[-1] < 0.05


def test_differences_measure_growth_without_any_assumption() -> None:
    """Differences along the trajectory agree with the chain rule for layers that are not balanced, ties included."""
    stream = RandomState(2)
    x, y = random_data(stream, inputs=5, classes=3, samples=20)
    for weights in (random_network(stream, [5, 4, 4, 3]), (np.eye(5), stream.normal(size=(3, 5)))):
        velocity = velocity_by_layers(weights[:-1], product_gradient(weights, x, y))
        now = decompose(product(weights[:-1]), velocity)
        found = growth_by_differences(weights, x, y, now)
        assert relative_error(found, growth_by_lemma1(now, velocity), 1e-4).max() < 1e-6


def test_a_value_that_passes_through_zero_is_measured_with_its_sign() -> None:
    """With one layer a singular value can vanish and return: it is followed as negative, and its growth is smooth."""
    x, y = np.array([[1.0, -1.0]]), np.eye(2)
    classifier = np.array([[1.0], [-1.0]])
    found = _measure((np.array([[-0.5]]), classifier), x, y, end=4, points=21)
    signs = np.sign(found.values[:, 0])
    assert signs[0] == 1
    assert signs[-1] == -1
    assert (np.diff(found.growth[:, 0]) != 0).all()
    assert np.abs(np.diff(found.growth[:, 0])).max() < 0.3 * np.abs(found.growth).max()
    assert relative_error(found.difference, found.growth, 1e-4).max() < 1e-6
    assert relative_error(found.theorem, found.growth, 1e-6).max() < 1e-6


def test_relative_errors_count_rest_as_the_floor() -> None:
    """Growth of nothing is compared with a share of the fastest of its row."""
    error = relative_error(np.array([[2.0, 1e-9]]), np.array([[1.0, 0.0]]), 1e-3)
    np.testing.assert_allclose(error, [[0.5, 1e-6]])
    np.testing.assert_allclose(total_error(np.array([[2.0, -1.0]]), np.array([[1.0, 1.0]])), [1.5])
    np.testing.assert_array_equal(relative_error(np.zeros((1, 2)), np.zeros((1, 2)), 1e-3), 0)
