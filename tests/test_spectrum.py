import math

import numpy as np
import pytest
import torch

from feddecorr.spectrum import Moments, effective_rank, significant, singular_values


def test_moments_of_parts_add_up_to_those_of_the_whole() -> None:
    z = torch.randn(101, 7, generator=torch.Generator().manual_seed(0)) + 3
    parts = Moments.of(z[:13]) + Moments.of(z[13:14]) + Moments.of(z[14:])
    whole = Moments.of(z)
    assert parts.count == whole.count
    torch.testing.assert_close(parts.mean, whole.mean, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(parts.scatter, whole.scatter, rtol=1e-12, atol=1e-10)


def test_the_covariance_is_that_of_numpy() -> None:
    z = torch.randn(50, 6, generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(Moments.of(z).covariance.numpy(), np.cov(z.numpy().T, bias=True), rtol=1e-5)


def test_large_means_cost_no_accuracy() -> None:
    z = torch.randn(1000, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    shifted = sum((Moments.of(part) for part in (z + 1e4).split(100)[1:]), Moments.of((z + 1e4)[:100]))
    torch.testing.assert_close(shifted.covariance, Moments.of(z).covariance, rtol=1e-9, atol=1e-9)


def test_singular_values_are_those_of_an_svd() -> None:
    covariance = Moments.of(torch.randn(20, 8, generator=torch.Generator().manual_seed(0))).covariance
    torch.testing.assert_close(singular_values(covariance), torch.linalg.svdvals(covariance))


@pytest.mark.parametrize("rank", [1, 3, 10])
def test_equal_values_have_their_number_as_effective_rank(rank: int) -> None:
    values = torch.cat([torch.full((rank,), 0.7), torch.zeros(10 - rank)])
    assert effective_rank(values) == pytest.approx(rank)


def test_no_variance_has_rank_zero() -> None:
    assert effective_rank(torch.zeros(4)) == 0


def test_two_unequal_values_by_hand() -> None:
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert effective_rank(torch.tensor([3.0, 1.0])) == pytest.approx(math.exp(entropy))


def test_significant_is_above_the_threshold_of_the_paper() -> None:
    assert significant(torch.exp(torch.tensor([1.0, -1.99, -2.01, -30.0]))) == 2
