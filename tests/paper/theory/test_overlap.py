import numpy as np
from linear_networks import aligned_network, balanced_layers
from numpy.random import RandomState

from feddecorr.paper.theory.matching import spectrum
from feddecorr.paper.theory.network import product
from feddecorr.paper.theory.overlap import alignment, alignment_score


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
