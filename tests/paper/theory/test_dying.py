"""Why features die: the squared correlation of two ReLU features rises with their bias, at every correlation.

For a standard Gaussian pair with correlation r, L(b, r) = P(X > −b, Y > −b) is the slope of the covariance of
ReLU(X + b) and ReLU(Y + b) in r. Every step of the proof on the page is checked here against something else.
"""

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.special import eval_hermitenorm, factorial, ndtr, owens_t
from scipy.stats import multivariate_normal, norm

from feddecorr.loss.decorrelation import fading, feddecorr

BIASES = np.linspace(-3, 3, 13)
CORRELATIONS = [-0.95, -0.5, -0.1, 0.1, 0.5, 0.9]


def both_active(bias: float, r: float) -> float:
    """Return L(b, r), by Owen's function."""
    return float(ndtr(bias) - 2 * owens_t(bias, np.sqrt((1 - r) / (1 + r))))


def covariance(bias: float, r: float) -> float:
    """Return the covariance of the two features: the integral of L from 0 to r."""
    value, _ = quad(lambda s: both_active(bias, s), 0, r, epsabs=1e-12)
    return float(value)


def variance(bias: float) -> float:
    """Return the variance of a feature, in closed form."""
    mean = bias * ndtr(bias) + norm.pdf(bias)
    return float((bias**2 + 1) * ndtr(bias) + bias * norm.pdf(bias) - mean**2)


def correlation(bias: float, r: float) -> float:
    return covariance(bias, r) / variance(bias)


@pytest.mark.parametrize("r", CORRELATIONS)
def test_the_squared_correlation_rises_with_the_bias(r: float) -> None:
    """Strictly, from nothing to the square of r: lowering the bias lowers the loss."""
    squares = np.array([correlation(bias, r) ** 2 for bias in BIASES])
    assert (np.diff(squares) > 0).all()
    assert squares[0] < 0.5 * r**2
    assert squares[-1] == pytest.approx(r**2, rel=0.02)


@pytest.mark.parametrize("r", CORRELATIONS)
@pytest.mark.parametrize("bias", [-1.5, 0.0, 1.0])
def test_the_integral_is_the_hermite_series(bias: float, r: float) -> None:
    """Coefficients Φ(b) for degree 1 and He_{k−2}(b) φ(b) / √k! for k ≥ 2: two ways to the same covariance."""
    degrees = np.arange(2, 150)
    coefficients = eval_hermitenorm(degrees - 2, -bias) * norm.pdf(bias) / np.sqrt(factorial(degrees))
    series = ndtr(bias) ** 2 * r + (coefficients**2 * r**degrees).sum()
    assert covariance(bias, r) == pytest.approx(series, rel=1e-6)


def test_the_slope_of_the_covariance_is_the_probability_that_both_are_active() -> None:
    """Against SciPy's bivariate normal distribution, and the variance as the integral up to 1."""
    for bias, r in ((-1.0, 0.3), (0.5, -0.6), (0.0, 0.8)):
        known = multivariate_normal.cdf([bias, bias], mean=[0, 0], cov=[[1, r], [r, 1]])
        assert both_active(bias, r) == pytest.approx(known, abs=1e-6)
    assert covariance(-0.7, 1 - 1e-9) == pytest.approx(variance(-0.7), rel=1e-5)


@pytest.mark.parametrize("r", CORRELATIONS)
@pytest.mark.parametrize("a", [-2.0, -0.5, 0.0, 0.5, 1.0, 2.5])
def test_the_inequality_that_the_proof_comes_down_to(a: float, r: float) -> None:
    """The mean of X where both exceed a is above a; by parts it is (1 + r) φ(a) Φ(−a √((1 − r)/(1 + r)))."""
    mean_there = (1 + r) * norm.pdf(a) * ndtr(-a * np.sqrt((1 - r) / (1 + r)))
    assert mean_there > a * both_active(-a, r)
    spread = np.sqrt(1 - r**2)
    direct, _ = quad(lambda x: x * norm.pdf(x) * ndtr((r * x - a) / spread), a, np.inf, epsabs=1e-13)
    assert mean_there == pytest.approx(direct, abs=1e-9)


@pytest.mark.parametrize("share", [0.2, 0.6])
@pytest.mark.parametrize("bias", [-1.0, 0.0, 1.0])
def test_every_bias_has_a_positive_slope_in_the_loss_itself(share: float, bias: float) -> None:
    """Eight features with one common cause, on many samples: gradient descent lowers each of the eight biases."""
    stream = torch.Generator().manual_seed(0)
    common = torch.randn(20000, 1, generator=stream, dtype=torch.float64)
    own = torch.randn(20000, 8, generator=stream, dtype=torch.float64)
    biases = torch.full((8,), bias, dtype=torch.float64, requires_grad=True)
    z = (share**0.5 * common + (1 - share) ** 0.5 * own + biases).relu()
    (slope,) = torch.autograd.grad(feddecorr(z), biases)
    assert (slope > 0).all()


def test_the_loss_has_no_slope_along_a_feature_itself() -> None:
    """Neither its scale nor its mean: nothing in the loss opposes a feature that dies."""
    stream = torch.Generator().manual_seed(0)
    z = torch.randn(500, 6, generator=stream, dtype=torch.float64) @ torch.randn(6, 6, dtype=torch.float64)
    z.requires_grad_()
    (slope,) = torch.autograd.grad(feddecorr(z), z)
    assert (z * slope).sum(0).abs().max() < 1e-6 * slope.abs().sum(0).max()
    assert slope.sum(0).abs().max() < 1e-9 * slope.abs().sum(0).max()


def spread_features(*variances: float) -> torch.Tensor:
    """Return uncorrelated features with these variances, on many samples."""
    stream = torch.Generator().manual_seed(0)
    z, _ = torch.linalg.qr(torch.randn(512, len(variances) + 1, generator=stream, dtype=torch.float64))
    centred, _ = torch.linalg.qr(z - z.mean(0))
    scales: torch.Tensor = (512 * torch.tensor(variances, dtype=torch.float64)).sqrt()
    found: torch.Tensor = centred[:, : len(variances)] * scales
    return found


@pytest.mark.parametrize("place", range(4))
def test_the_death_of_a_feature_does_not_lower_the_loss_that_counts_it_if_variances_are_alike(place: int) -> None:
    z = spread_features(1.0, 2.0, 1.0, 0.5)
    mixed = z + z.roll(1, 1)
    for before in (z, mixed):
        after = before.clone()
        after[:, place] = 0.0
        assert feddecorr(after, "paper", "counted") > feddecorr(before, "paper", "counted")


def test_the_death_of_the_feature_that_holds_most_of_the_variance_lowers_even_the_loss_that_counts_it() -> None:
    """Next to it the other seven counted as faded: the mean of K² was near 1, and is 2/8 once it is dead."""
    z = spread_features(1e6, *[1.0] * 7)
    dead = z.clone()
    dead[:, 0] = 0.0
    assert (fading(z)[1:] > 0.99).all()
    assert (fading(dead)[1:] < 0.05).all()
    before, after = (8 * float(feddecorr(each, "paper", "counted")) for each in (z, dead))
    assert (before - 1) / 7 > 0.95
    assert (after - 1) / 7 == pytest.approx(2 / 8, abs=0.01)
