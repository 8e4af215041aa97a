"""The table of docs/which-effective-rank.md: formulas that others print, and the call that equals each."""

import json
import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from benchmarks.conformance import GROUP, features, our_entropy, our_lidar, our_score, our_update
from numpy.typing import NDArray
from pages import ROOT

import feddecorr

Values = NDArray[np.floating]


def singular(x: Values) -> Values:
    return np.linalg.svd(x, compute_uv=False)


def roy_vetterli(x: Values) -> float:
    """Of any matrix, with 0·log 0 = 0 (Roy and Vetterli, 2007)."""
    shares = singular(x) / singular(x).sum()
    return math.exp(-sum(p * math.log(p) for p in shares if p > 0))


def rankme(x: Values, epsilon: float, divisor: float = 0.0) -> float:
    """Epsilon after the division (Garrido et al., 2023), perhaps in the divisor, too."""
    shares = singular(x) / (singular(x).sum() + divisor) + epsilon
    return float(np.exp(-(shares * np.log(shares)).sum()))


def guarded(x: Values, epsilon: float = 1e-12) -> float:
    """Epsilon in the divisor and in the logarithm."""
    shares = singular(x) / (singular(x).sum() + epsilon)
    return float(np.exp(-(shares * np.log(shares + epsilon)).sum()))


def eigenvalues(x: Values) -> Values:
    """Of the unbiased covariance, as numpy computes it."""
    return np.linalg.eigvalsh(np.cov(x.T)).clip(0)


def covariance_entropy(x: Values) -> float:
    shares = eigenvalues(x) / eigenvalues(x).sum()
    return math.exp(-sum(p * math.log(p) for p in shares if p > 0))


def lidar(x: Values, groups: int = GROUP, delta: float = 1e-4) -> float:
    """Of groups in a row, by the unbiased covariances and without ε (as stable-pretraining has it but for ε)."""
    parts = x.reshape(-1, groups, x.shape[1])
    means = parts.mean(1)
    inner = (parts - means[:, None]).reshape(-1, x.shape[1])
    within = inner.T @ inner / (len(parts) * (groups - 1)) + delta * np.eye(x.shape[1])
    values, vectors = np.linalg.eigh(within)
    root = vectors / np.sqrt(values) @ vectors.T
    found = np.linalg.eigvalsh(root @ np.cov(means.T) @ root).clip(0)
    shares = found / found.sum()
    return math.exp(-sum(p * math.log(p) for p in shares if p > 0))


def matrix_entropy(x: Values, epsilon: float = 1e-10) -> float:
    """By the logarithm of the rank (weightwatcher)."""
    shares = singular(x) ** 2 / (singular(x) ** 2).sum() + epsilon
    return float(-(shares * np.log(shares)).sum() / np.log(np.linalg.matrix_rank(x) + epsilon))


FORMULAS: dict[str, tuple[Callable[[Values], float], Callable[[Values], torch.Tensor | float]]] = {
    "covariance": (covariance_entropy, feddecorr.effective_rank),
    "centred features": (
        lambda x: roy_vetterli(x - x.mean(0)),
        lambda x: feddecorr.effective_rank(x, of="features"),
    ),
    "Roy and Vetterli": (roy_vetterli, lambda x: feddecorr.effective_rank(x, of="features", centred=False)),
    "RankMe": (lambda x: rankme(x, 1e-7), feddecorr.rankme),
    "stable-pretraining": (lambda x: rankme(x, 1e-5), lambda x: feddecorr.rankme(x, epsilon=1e-5)),
    "stable-pretraining, JAX": (
        lambda x: rankme(x, 1e-7, divisor=1e-7),
        feddecorr.rankme,
    ),
    "MONAI": (lambda x: 1 - roy_vetterli(x - x.mean(0)) / min(len(x) - 1, x.shape[1]), our_score),
    "weightwatcher, stable rank": (lambda x: float((singular(x) ** 2).sum() / singular(x)[0] ** 2), our_update),
    "weightwatcher, entropy": (matrix_entropy, our_entropy),
    "guarded logarithm": (guarded, lambda x: feddecorr.effective_rank(x, of="features", centred=False)),
    "from 0 to 1": (
        lambda x: math.log(roy_vetterli(x)) / math.log(x.shape[1]),
        lambda x: feddecorr.effective_rank(x, of="features", centred=False).log() / math.log(x.shape[1]),
    ),
    "participation ratio": (
        lambda x: float(eigenvalues(x).sum() ** 2 / (eigenvalues(x) ** 2).sum()),
        feddecorr.participation_ratio,
    ),
}


@pytest.mark.parametrize("x", features().values(), ids=features())
@pytest.mark.parametrize(("formula", "ours"), FORMULAS.values(), ids=FORMULAS)
def test_ours_with_the_option_is_theirs(
    formula: Callable[[Values], float], ours: Callable[[Values], torch.Tensor | float], x: Values
) -> None:
    assert float(ours(x)) == pytest.approx(formula(x), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", ["isotropic", "power law", "digits"])
def test_lidar_is_that_of_unbiased_covariances_with_delta_in_their_unit(name: str) -> None:
    assert float(our_lidar(features()[name])) == pytest.approx(lidar(features()[name]), rel=1e-6)


def test_packages_were_compared_with_the_very_calls_of_the_page() -> None:
    """All but those of which the record says why are within 1e-6 on all features."""
    for each in json.loads((ROOT / "results" / "conformance.json").read_text())["comparisons"]:
        largest = max(value for value in each["differences"].values() if value is not None)
        assert largest <= 1e-6 or each["apart"], each["what"]


def test_they_are_not_the_same_number() -> None:
    """On real features, three conventions are more than five percent apart."""
    x = features()["digits"]
    found = sorted(float(FORMULAS[name][1](x)) for name in ("covariance", "centred features", "RankMe"))
    assert all(after > 1.05 * before for before, after in pairwise(found)), found


def test_directions_without_variance_add_what_the_page_says() -> None:
    """Each ε·log(1/ε): of 2048 dead directions 0.3 % with 1e-7, 27 % with 1e-5."""

    def of_dead(directions: int, epsilon: float) -> float:
        return math.exp(directions * epsilon * math.log(1 / epsilon))

    x = np.zeros((300, 257))
    x[:, 0] = 1
    for epsilon, said in ((1e-7, 1.003), (1e-5, 1.27)):
        assert float(feddecorr.rankme(x, epsilon=epsilon)) == pytest.approx(of_dead(256, epsilon), rel=1e-4)
        assert of_dead(2048, epsilon) == pytest.approx(said, abs=5e-3)
