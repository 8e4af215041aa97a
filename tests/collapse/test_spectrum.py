import math

import numpy as np
import pytest
import torch

from feddecorr.collapse import spectrum
from feddecorr.collapse.spectrum import effective_rank, significant, singular_values


def test_singular_values_are_those_of_an_svd() -> None:
    covariance = torch.cov(torch.randn(8, 20, generator=torch.Generator().manual_seed(0)))
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


@pytest.mark.parametrize("rank", [1, 3, 10])
def test_equal_values_are_counted_by_every_measure(rank: int) -> None:
    """Of k equal values, every rank is k."""
    values = torch.cat([torch.full((rank,), 0.7), torch.zeros(10 - rank)]).double()
    assert spectrum.participation_ratio(values) == pytest.approx(rank)
    assert spectrum.stable_rank(values) == pytest.approx(rank)
    assert spectrum.numerical_rank(values, 100) == rank
    assert spectrum.rankme(values) == pytest.approx(rank, rel=1e-4)
    assert spectrum.dimensions_for(values, 0.99) == rank


def test_a_spectrum_of_nothing_is_zero_everywhere() -> None:
    """Without any variance, nothing is divided by zero."""
    nothing = torch.zeros(4, dtype=torch.float64)
    assert spectrum.participation_ratio(nothing) == spectrum.stable_rank(nothing) == spectrum.rankme(nothing) == 0
    assert spectrum.numerical_rank(nothing, 9) == spectrum.dimensions_for(nothing, 0.9) == 0
    assert spectrum.power_law_exponent(nothing) is None


def test_ranks_are_in_their_known_order() -> None:
    """Stable rank ≤ participation ratio ≤ effective rank ≤ numerical rank: Rényi entropies fall with their order."""
    values = (
        torch.rand(30, generator=torch.Generator().manual_seed(0), dtype=torch.float64).sort(descending=True).values
    )
    ranks = [
        spectrum.stable_rank(values),
        spectrum.participation_ratio(values),
        effective_rank(values),
        spectrum.numerical_rank(values, 1000),
    ]
    assert ranks == sorted(ranks)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.5])
def test_a_power_law_is_found_again(exponent: float) -> None:
    """Of values that are k⁻ᵃ times anything, a is found, whatever the factor."""
    values = 3.7 * torch.arange(1, 200, dtype=torch.float64) ** -exponent
    assert spectrum.power_law_exponent(values) == pytest.approx(exponent)


def test_a_power_law_is_fitted_as_numpy_does() -> None:
    """The fit is numpy's weighted least squares, with weights 1/k on the squares."""
    values = (
        torch.rand(50, generator=torch.Generator().manual_seed(1), dtype=torch.float64).sort(descending=True).values
    )
    places = np.arange(1, 51)
    slope = np.polyfit(np.log(places), np.log(values.numpy()), 1, w=places**-0.5)[0]
    assert spectrum.power_law_exponent(values) == pytest.approx(-slope)


def test_the_share_of_variance_by_hand() -> None:
    """Of 90, 5, 4 and 1 percent: one direction holds 90 %, two hold 95 %, three hold 99 %."""
    values = torch.tensor([90.0, 5.0, 4.0, 1.0], dtype=torch.float64)
    assert [spectrum.dimensions_for(values, share) for share in (0.90, 0.95, 0.99, 1.0)] == [1, 2, 3, 4]
