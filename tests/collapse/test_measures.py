import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from torch import Tensor

from feddecorr.collapse.measures import Measures, Principal, measure_spread
from feddecorr.collapse.statistics import Moments
from feddecorr.errors import UserError
from feddecorr.loss import decorrelation

Values = NDArray[np.float64]


def measure(z: Tensor) -> Measures:
    return measure_spread(Principal(Moments.of(z)))


def draw(n: int, d: int, seed: int = 0) -> Tensor:
    stream = torch.Generator().manual_seed(seed)
    mixing = torch.randn(d, d, generator=stream, dtype=torch.float64)
    return torch.randn(n, d, generator=stream, dtype=torch.float64) @ mixing + 2


def isotropic(n: int, d: int) -> Tensor:
    """Return samples whose covariance is exactly the identity."""
    noise = draw(n, d)
    scaled: Tensor = torch.linalg.qr(noise - noise.mean(0)).Q * n**0.5
    return scaled


def entropy_rank(values: Values) -> float:
    shares = values[values > 0] / values.sum()
    return math.exp(-(shares * np.log(shares)).sum())


@pytest.mark.parametrize(("n", "d"), [(200, 12), (9, 30), (2, 3)])
def test_every_measure_is_the_naive_one(n: int, d: int) -> None:
    """From the samples themselves, by numpy's decompositions, also with fewer samples than features."""
    z = draw(n, d)
    x = z.numpy()
    found = measure(z)
    values = np.linalg.svd(np.cov(x.T, bias=True), compute_uv=False)
    centred = np.linalg.svd(x - x.mean(0), compute_uv=False)[: min(n - 1, d)]
    plain = np.linalg.svd(x, compute_uv=False)
    shares = plain / plain.sum() + 1e-7
    correlations = np.corrcoef(x.T)
    off = correlations[~np.eye(d, dtype=bool)]
    assert (found.samples, found.dimensions, found.maximum_rank) == (n, d, min(n - 1, d))
    np.testing.assert_allclose(found.singular_values, values, rtol=1e-9, atol=1e-9 * values[0])
    assert found.effective_rank == pytest.approx(entropy_rank(centred**2))
    assert found.effective_rank_of_features == pytest.approx(entropy_rank(centred))
    assert found.rankme == pytest.approx(math.exp(-(shares * np.log(shares)).sum()), rel=1e-5)
    assert found.participation_ratio == pytest.approx(values.sum() ** 2 / (values**2).sum())
    assert found.stable_rank == pytest.approx((centred**2).sum() / centred[0] ** 2)
    assert found.numerical_rank == np.linalg.matrix_rank(x - x.mean(0))
    assert found.significant_singular_values == (values > math.exp(-2)).sum()
    assert found.singular_value_variance == pytest.approx(values.var())
    assert found.mean_squared_correlation == pytest.approx((off**2).mean())
    assert found.feddecorr_loss_paper == pytest.approx(float(decorrelation.feddecorr(z, "paper")), rel=1e-6)
    assert found.feddecorr_loss_released == pytest.approx(float(decorrelation.feddecorr(z, "released")), rel=1e-6)
    assert found.dead_features == 0


def test_variance_is_shared_out_as_by_scikit_learn() -> None:
    """PCA's explained variances are the singular values, and its cumulative shares give the dimensions."""
    z = draw(300, 15)
    pca = PCA().fit(z.numpy())
    found = measure(z)
    np.testing.assert_allclose(found.singular_values, pca.explained_variance_ * 299 / 300, rtol=1e-9)
    held = pca.explained_variance_ratio_.cumsum()
    assert found.dimensions_for_90_percent == 1 + np.searchsorted(held, 0.90)
    assert found.dimensions_for_95_percent == 1 + np.searchsorted(held, 0.95)
    assert found.dimensions_for_99_percent == 1 + np.searchsorted(held, 0.99)


def test_isotropic_features_use_all_dimensions() -> None:
    """When the covariance is the identity, every rank is d and no features are correlated."""
    found = measure(isotropic(400, 10))
    ranks = [found.effective_rank, found.effective_rank_of_features, found.participation_ratio, found.stable_rank]
    assert ranks == pytest.approx([10] * 4)
    assert (found.numerical_rank, found.significant_singular_values, found.dimensions_for_99_percent) == (10, 10, 10)
    assert found.mean_squared_correlation == pytest.approx(0, abs=1e-20)
    assert found.singular_value_variance == pytest.approx(0, abs=1e-20)
    assert found.power_law_exponent == pytest.approx(0, abs=1e-9)
    assert found.rankme == pytest.approx(10, rel=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_features_of_rank_k_have_rank_k(dtype: torch.dtype) -> None:
    """Equal variance in k directions of a larger space: every rank is k, though all features vary."""
    stream = torch.Generator().manual_seed(1)
    turn = torch.linalg.qr(torch.randn(40, 40, generator=stream, dtype=torch.float64)).Q[:5]
    found = measure((isotropic(300, 5) @ turn).to(dtype))
    assert found.numerical_rank == found.dimensions_for_99_percent == found.significant_singular_values == 5
    for rank in (found.effective_rank, found.effective_rank_of_features, found.participation_ratio, found.stable_rank):
        assert rank == pytest.approx(5, rel=1e-5)
    assert found.dead_features == 0


def test_one_hot_features_span_one_dimension_less() -> None:
    """C equally frequent one-hot vectors have C − 1 singular values of 1/C after centring."""
    found = measure(torch.eye(6, dtype=torch.float64).repeat(20, 1))
    assert found.effective_rank == pytest.approx(5)
    assert found.numerical_rank == 5
    np.testing.assert_allclose(found.singular_values, [1 / 6] * 5 + [0], atol=1e-15)
    assert found.mean_squared_correlation == pytest.approx(1 / 25)  # each pair correlates by −1/(C−1)


def test_constant_features_are_a_total_collapse_and_no_error() -> None:
    """Without variance all ranks are zero, all features dead, and nothing is NaN."""
    found = measure(torch.full((50, 4), 0.1))
    assert found.dead_features == 4
    assert found.singular_values == [0, 0, 0, 0]
    assert found.effective_rank == found.effective_rank_of_features == found.participation_ratio == 0
    assert found.stable_rank == found.numerical_rank == found.mean_squared_correlation == 0
    assert found.power_law_exponent is None
    assert found.rankme == pytest.approx(1, rel=1e-4)  # not centred: all samples lie in one direction


def test_some_dead_features_are_counted() -> None:
    """Features without variance change no rank of the others."""
    z = draw(100, 6)
    wider = torch.cat([z, torch.full((100, 3), 7.0, dtype=torch.float64)], 1)
    alone, beside = measure(z), measure(wider)
    assert beside.dead_features == 3
    assert beside.effective_rank == pytest.approx(alone.effective_rank)
    assert beside.numerical_rank == alone.numerical_rank


def test_no_rank_is_above_what_samples_can_span() -> None:
    """N samples have at most N − 1 directions after centring."""
    found = measure(draw(8, 50))
    assert found.maximum_rank == found.numerical_rank == 7
    assert found.effective_rank <= 7
    assert found.effective_rank_of_features <= 7


def test_turning_and_shifting_the_features_changes_no_rank() -> None:
    """All ranks of the covariance are the same in any orthogonal basis and around any mean; scale matters not."""
    z = draw(200, 9)
    turn = torch.linalg.qr(draw(9, 9, seed=5)).Q
    one, other = measure(z), measure(3 * (z @ turn) + 1e4)
    for name in ("effective_rank", "participation_ratio", "stable_rank", "effective_rank_of_features"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-7)


def test_one_sample_is_refused() -> None:
    """It has no spread, and the message says what would be right."""
    with pytest.raises(UserError, match="at least two"):
        measure(torch.ones(1, 3))


def test_numbers_too_large_to_be_squared_are_refused() -> None:
    """An overflow is named, not passed on as infinity."""
    with pytest.raises(UserError, match="too large"):
        measure(draw(10, 3) * 1e200)
