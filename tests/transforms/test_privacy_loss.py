"""What privacy costs, compared with two other accountants, with closed forms, and with what is really lost."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from attackers import really_lost
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm

from feddecorr.errors import UserError
from feddecorr.transforms import privacy_loss
from feddecorr.transforms.privacy_loss import NeighboringRelation, epsilon

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE, NeighboringRelation.REPLACE

DP_ACCOUNTING = [
    (0.05, 1.1, 100, 1e-5, 2.8868, 22.9087),
    (0.01, 4.0, 10_000, 1e-5, 0.9470, 5.1368),
    (0.01, 0.7, 1000, 1e-5, 4.6183, 541.8869),
    (1.0, 8.0, 10, 1e-5, 1.5347, 3.6171),
    (0.2, 0.5, 50, 1e-4, 33.8514, 681.5377),
    (0.5, 3.0, 100, 1e-6, 9.3001, 56.8737),
    (0.001, 1.0, 10_000, 1e-7, 0.6281, 10.3687),
    (0.05, 1.1, 100, 1e-10, 5.2146, 34.4217),
    (0.1, 2.0, 1, 1e-5, 0.3690, 2.2751),
    (0.3, 1.0, 30, 1e-3, 8.2155, 76.9846),
]
"""Rate, noise, steps, δ, and what Google's dp-accounting 0.6.0 makes of it.

First `PLDAccountant(ADD_OR_REMOVE_ONE, value_discretization_interval=1e-4)` of a `PoissonSampledDpEvent`, then
`RdpAccountant(REPLACE_ONE)` of a `SampledWithoutReplacementDpEvent` of 1000 with half the noise, which knows no losses.
"""


@pytest.mark.parametrize(("rate", "noise", "steps", "delta", "poisson", "fixed"), DP_ACCOUNTING)
def test_it_agrees_with_dp_accounting_where_that_is_tight_and_is_below_it_elsewhere(
    rate: float, noise: float, steps: int, delta: float, poisson: float, fixed: float
) -> None:
    assert epsilon(rate, noise, steps, delta, ADD) == pytest.approx(poisson, rel=1e-3, abs=1e-3)
    assert epsilon(rate, noise, steps, delta, REPLACE) <= fixed


@pytest.mark.parametrize(("rate", "noise", "steps", "delta", "poisson", "fixed"), DP_ACCOUNTING)
def test_it_agrees_with_opacus(
    rate: float, noise: float, steps: int, delta: float, poisson: float, fixed: float
) -> None:
    """With its PRV accountant within the error that this one is asked for, and no looser than its RDP accountant."""
    from opacus.accountants import PRVAccountant, RDPAccountant  # noqa: PLC0415 - slow to import

    del poisson, fixed
    found = epsilon(rate, noise, steps, delta, ADD)
    rdp, prv = RDPAccountant(), PRVAccountant()
    rdp.history = prv.history = [(noise, rate, steps)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert found <= max(0.0, rdp.get_epsilon(delta))
        if rate < 1 and delta > 1e-9:  # its own limits
            assert found == pytest.approx(prv.get_epsilon(delta, eps_error=0.01), abs=0.021)


PUBLISHED = [
    (0.01, 4.0, 10_000, 1e-5, 1.26),  # Abadi et al., 2016, section 3.2
    (256 / 60_000, 1.3, 15 * 60_000 // 256, 1e-5, 1.19),  # the table of TensorFlow Privacy's tutorial on MNIST
    (256 / 60_000, 1.1, 60 * 60_000 // 256, 1e-5, 3.01),
    (256 / 60_000, 0.7, 45 * 60_000 // 256, 1e-5, 7.10),
]
"""By the looser bounds of their time."""


@pytest.mark.parametrize(("rate", "noise", "steps", "delta", "published"), PUBLISHED)
def test_it_is_below_the_published_values_and_not_far(
    rate: float, noise: float, steps: int, delta: float, published: float
) -> None:
    assert 0.7 * published < epsilon(rate, noise, steps, delta, ADD) <= published


def gaussian(shift: float, delta: float) -> float:
    """Return ε of one Gaussian mechanism in closed form (Balle and Wang, 2018)."""

    def lost(asked: float) -> float:
        return float(norm.cdf(shift / 2 - asked / shift) - math.exp(asked) * norm.cdf(-shift / 2 - asked / shift))

    return 0.0 if lost(0.0) <= delta else float(brentq(lambda asked: lost(asked) - delta, 0, 100))


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9])
@pytest.mark.parametrize(("noise", "steps"), [(1.0, 1), (8.0, 10), (3.0, 40), (30.0, 2)])
def test_without_a_draw_it_is_the_gaussian_mechanism(noise: float, steps: int, delta: float) -> None:
    for neighbours, norms in ((ADD, 1), (REPLACE, 2)):
        expected = gaussian(norms * math.sqrt(steps) / noise, delta)
        found = epsilon(1.0, noise, steps, delta, neighbours)
        assert expected <= found + 1e-9
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("steps", [1, 10, 100])
@pytest.mark.parametrize(("rate", "noise"), [(0.05, 1.1), (0.2, 3.0), (0.5, 8.0)])
def test_it_is_a_bound_on_what_is_really_lost(rate: float, noise: float, steps: int) -> None:
    """On the worst data: the client sends one thing, and all others, or the one in its place, the opposite."""
    for neighbours, norms in ((ADD, 1), (REPLACE, 2)):
        least = really_lost(rate, norms / noise, steps, 1e-5)
        found = epsilon(rate, noise, steps, 1e-5, neighbours)
        assert least <= found
        if steps < 100 or neighbours is ADD:  # of replacing, nobody knows the worst data for many rounds
            assert found <= 1.1 * least + 0.05


def test_the_finer_the_losses_the_less_is_spent_and_hardly_less(monkeypatch: pytest.MonkeyPatch) -> None:
    coarse = [epsilon(0.05, 1.1, 100, 1e-5, neighbours) for neighbours in NeighboringRelation]
    monkeypatch.setattr(privacy_loss, "CELLS", 4 * privacy_loss.CELLS)
    fine = [epsilon(0.05, 1.1, 100, 1e-5, neighbours) for neighbours in NeighboringRelation]
    assert np.all(np.array(fine) <= coarse)
    assert fine == pytest.approx(coarse, rel=1e-4)


@pytest.mark.parametrize("neighbours", list(NeighboringRelation))
@pytest.mark.parametrize("delta", [0.5, 1e-3])
def test_epsilon_is_never_below_zero_and_nothing_costs_nothing(neighbours: NeighboringRelation, delta: float) -> None:
    for noise, rate in ((1.0, 0.05), (30.0, 0.001), (1000.0, 1.0)):
        spent = [epsilon(rate, noise, steps, delta, neighbours) for steps in (0, 1, 10)]
        assert spent[0] == 0
        assert spent == sorted(spent)


def test_more_of_everything_costs_more() -> None:
    def cost(rate: float = 0.1, noise: float = 2.0, steps: int = 20, delta: float = 1e-5) -> NDArray[np.float64]:
        return np.array([epsilon(rate, noise, steps, delta, neighbours) for neighbours in NeighboringRelation])

    for dearer in (cost(rate=0.2), cost(noise=1.5), cost(steps=25), cost(delta=1e-20)):
        assert np.all(dearer > cost())
    assert cost()[1] > cost()[0]


@pytest.mark.parametrize(("noise", "steps", "delta"), [(5e-324, 1, 1e-5), (0.5, 10**9, 1e-5), (1.0, 100, 1e-300)])
@pytest.mark.parametrize("neighbours", NeighboringRelation)
def test_what_cannot_be_computed_is_reported(
    noise: float, steps: int, delta: float, neighbours: NeighboringRelation
) -> None:
    with pytest.raises(UserError, match=f"no epsilon can be computed for .*rounds={steps}"):
        epsilon(0.5, noise, steps, delta, neighbours)
