"""Measures of a batch of features: a tensor in, a number out."""

from __future__ import annotations

from torch import Tensor

from feddecorr.collapse import spectrum
from feddecorr.collapse.measures import Principal
from feddecorr.collapse.statistics import Statistics


def effective_rank(z: Tensor) -> float:
    """Return how many dimensions carry features of shape (n, d): from 1 to min(n − 1, d), and 0 without any spread.

    It is exp of the entropy of the covariance's singular values (Roy and Vetterli, 2007), computed in float64.
    """
    return spectrum.effective_rank(Principal(Statistics.of(z.detach()).moments).values)
