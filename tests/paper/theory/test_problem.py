import numpy as np
import pytest
from pydantic import ValidationError

from feddecorr.paper.theory.measurement import imbalance_of_layers
from feddecorr.paper.theory.network import Array, product
from feddecorr.paper.theory.overlap import alignment, alignment_score
from feddecorr.paper.theory.problem import class_sizes, draw_data, draw_start
from feddecorr.paper.theory.settings import Alignment, Flow, Network


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
