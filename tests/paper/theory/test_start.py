from itertools import pairwise

import numpy as np
import pytest
from linear_networks import aligned_network, balanced_layers
from numpy.random import RandomState

from feddecorr.errors import UserError
from feddecorr.paper.theory.matching import spectrum
from feddecorr.paper.theory.network import product
from feddecorr.paper.theory.start import aligned_classifier, balanced_start, random_frame


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
