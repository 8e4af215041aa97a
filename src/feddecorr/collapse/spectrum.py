"""Measures of a spectrum: how many dimensions carry the representations.

Each takes singular values of a covariance matrix, largest first. Of no variance at all, each is zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

LOG_TAU = -2.0
"""A singular value is significant above exp(LOG_TAU), the paper's example of a threshold (section 3.1)."""

SHOWN_VALUES = 100
"""How many singular values the paper's figures show."""

SMALLEST_LOG = -20.0
"""How far down they are drawn."""


def singular_values(covariance: Tensor) -> Tensor:
    """Return the singular values of a covariance matrix, largest first."""
    values: Tensor = torch.linalg.eigvalsh(covariance)
    return values.flip(0).clamp(min=0)


def significant(values: Tensor) -> int:
    """Return how many singular values of the covariance exceed τ (natural logarithm of τ: −2)."""
    return int((values > math.exp(LOG_TAU)).sum())


def effective_rank(values: Tensor) -> float:
    """Return exp of the entropy of the normalized values (Roy and Vetterli, 2007), from 1 to their number.

    Taken of the covariance matrix's singular values it is what runs record. Of their roots, which are those of
    the centred features up to a factor, it is larger.
    """
    return float(entropy_rank(values))


def entropy_rank(values: Tensor, epsilon: float = 0.0) -> Tensor:
    """Return exp(−Σ pₖ log pₖ) with pₖ = σₖ/Σσ + epsilon, of each spectrum of shape (…, d); 0 of no values above zero.

    Its gradient is finite everywhere: a value of zero counts as constant.
    """
    total = values.sum(-1, keepdim=True)
    shares = values / torch.where(total > 0, total, 1.0) + epsilon
    entropy = torch.special.entr(torch.where(shares > 0, shares, 1.0)).sum(-1)  # entr(1) = 0
    return torch.where(total.squeeze(-1) > 0, entropy.exp(), 0.0)


def relative(values: Tensor) -> Tensor:
    """Return each spectrum of shape (…, d) by its largest value."""
    largest = values[..., :1]
    return values / torch.where(largest > 0, largest, 1.0)


def rankme(values: Tensor) -> float:
    """Return RankMe (Garrido et al., ICML 2023) of the singular values of the features, which are not centred.

    The entropy is that of the shares plus 1e-7, as its authors write it for float32.
    """
    return float(entropy_rank(values, 1e-7))


def participation_ratio(values: Tensor) -> float:
    """Return (Σλ)² / Σλ² (Gao et al., 2017): the number of equal values with the same spread."""
    largest = float(values[0])  # divided off, so that squares neither overflow nor vanish
    return float((values / largest).sum() ** 2 / (values / largest).square().sum()) if largest > 0 else 0.0


def stable_rank(values: Tensor) -> float:
    """Return Σλ / λ₁, which is ‖Z‖²_F / ‖Z‖²₂ of the centred features Z (Rudelson and Vershynin, 2007)."""
    return float(values.sum() / values[0]) if float(values[0]) > 0 else 0.0


def numerical_rank(values: Tensor, count: int) -> int:
    """Return how many values are more than rounding; `count` samples were summed.

    The threshold is max(count, d) · ε · λ₁, as of numpy's `matrix_rank`, with ε of float64.
    """
    rounding = max(count, len(values)) * torch.finfo(torch.float64).eps
    return int((values > rounding * values[0]).sum())


def dimensions_for(values: Tensor, share: float) -> int:
    """Return how many principal directions it takes to hold that share of the variance."""
    total = float(values.sum())
    if total == 0:
        return 0
    held = values.cumsum(0) / total
    return 1 + int((held < share - 1e-12).sum())  # rounding must not ask for one more


def tail_share(values: Tensor, strongest: int) -> float:
    """Return the share of the variance beyond that many of the strongest directions."""
    total = float(values.sum())
    return float(values[strongest:].sum()) / total if total > 0 else 0.0


def power_law_exponent(values: Tensor) -> float | None:
    """Return the a of the best fit λ_k ∝ k⁻ᵃ (Stringer et al., 2019), or None of fewer than two values above zero.

    A straight line through (log k, log λ_k) by least squares. The k-th point weighs 1/k, so that each octave
    counts the same.
    """
    seen = values[values > 0].double()
    if len(seen) < 2:
        return None
    places = torch.arange(1, len(seen) + 1, dtype=torch.float64, device=seen.device)
    weights = places.reciprocal() / places.reciprocal().sum()
    x, y = places.log(), seen.log()
    x, y = x - weights @ x, y - weights @ y
    return -float((weights * x) @ y / ((weights * x) @ x))


def variance(values: Tensor) -> float:
    """Return L_singular, the variance of the singular values (equation 6 of the FedDecorr paper)."""
    return float(values.var(correction=0))


def logarithms(values: Sequence[float], shown: int = SHOWN_VALUES) -> list[float]:
    """Return the logarithms of the first values, as far down as is drawn."""
    return [max(math.log(value), SMALLEST_LOG) if value > 0 else SMALLEST_LOG for value in values[:shown]]
