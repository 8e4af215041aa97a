"""The spectrum of the representations: how many dimensions carry them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

LOG_TAU = -2.0
"""A singular value is significant above exp(LOG_TAU), the paper's example of a threshold (section 3.1)."""


@dataclass(frozen=True)
class Moments:
    """Count, mean and scatter Σ(z−z̄)(z−z̄)ᵀ of representations, in float64, without holding them.

    Two parts are merged by the update of Chan, Golub and LeVeque (1979), which stays exact under large means.
    """

    count: int
    mean: Tensor
    scatter: Tensor

    @classmethod
    def of(cls, z: Tensor) -> Moments:
        """Return the moments of one batch of shape (n, d)."""
        wide = z.to(torch.float64)
        mean = wide.mean(0)
        centred = wide - mean
        return cls(len(z), mean, centred.T @ centred)

    def __add__(self, other: Moments) -> Moments:
        count = self.count + other.count
        gap = other.mean - self.mean
        mean = self.mean + gap * (other.count / count)
        scatter = torch.addr(self.scatter + other.scatter, gap, gap, alpha=self.count * other.count / count)
        return Moments(count, mean, scatter)

    @property
    def covariance(self) -> Tensor:
        """The paper's Σ, with 1/N."""
        return self.scatter / self.count


def singular_values(covariance: Tensor) -> Tensor:
    """Return the singular values of a covariance matrix, largest first."""
    values: Tensor = torch.linalg.eigvalsh(covariance)
    return values.flip(0).clamp(min=0)


def effective_rank(values: Tensor) -> float:
    """Return exp of the entropy of the normalized values (Roy and Vetterli, 2007), from 1 to their number.

    Taken of the covariance matrix's singular values. Of no variance at all, it is 0.
    """
    total = float(values.sum())
    if total == 0:
        return 0.0
    return math.exp(float(torch.special.entr(values / total).sum()))


def significant(values: Tensor) -> int:
    """Return how many singular values of the covariance exceed τ (natural logarithm of τ: −2)."""
    return int((values > math.exp(LOG_TAU)).sum())
