import numpy as np
import pytest
import torch
from numpy.random import RandomState

from feddecorr.loss.decorrelation import feddecorr


@pytest.mark.parametrize(("dim", "samples"), [(3, 50), (8, 20), (10, 6)])
def test_proposition_1(dim: int, samples: int) -> None:
    """Σ_i (λ_i − λ̄)² = ‖K‖²_F − d for correlation matrices, also singular ones (fewer samples than dimensions)."""
    k = np.corrcoef(RandomState(dim).normal(size=(dim, dim)) @ RandomState(0).normal(size=(dim, samples)))
    values = np.linalg.svd(k, compute_uv=False)
    assert ((values - values.mean()) ** 2).sum() == pytest.approx((k**2).sum() - dim, rel=1e-10)


def test_the_variance_of_singular_values_is_the_term_up_to_a_scale() -> None:
    """Of z-scores, L_singular = d · L_FedDecorr − 1."""
    z = RandomState(1).normal(size=(40, 6)) @ RandomState(2).normal(size=(6, 6))
    scores = (z - z.mean(0)) / z.std(0)
    values = np.linalg.svd(np.cov(scores.T, bias=True), compute_uv=False)
    term = feddecorr(torch.from_numpy(z), "paper").item()
    assert values.var() == pytest.approx(6 * term - 1, rel=1e-6)
