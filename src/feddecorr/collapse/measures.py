"""What representations alone tell, without labels: every measure of their spectrum and correlations."""

from __future__ import annotations

from dataclasses import Field, dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from feddecorr.collapse import spectrum
from feddecorr.collapse.statistics import Moments, Statistics
from feddecorr.errors import UserError
from feddecorr.loss.decorrelation import EPSILON


@dataclass(frozen=True)
class Principal:
    """The principal directions of representations (columns, strongest first) and the variance along each."""

    moments: Moments

    def __post_init__(self) -> None:
        if self.moments.count < 2:
            raise UserError("one sample has no spread: a diagnosis needs at least two, better more than features")
        if not torch.isfinite(self.moments.second).all():
            raise UserError("the representations are too large to be squared in float64")

    @cached_property
    def values(self) -> Tensor:
        """The singular values of the covariance, d of them."""
        return spectrum.singular_values(self.moments.covariance)

    @cached_property
    def directions(self) -> Tensor:
        """One direction in each column; three times the work of the values alone, so only if it is asked for."""
        vectors: Tensor = torch.linalg.eigh(self.moments.covariance).eigenvectors
        return vectors.flip(1)

    @cached_property
    def rank(self) -> int:
        """How many values are more than rounding; after centring at most N − 1 are."""
        return min(self.moments.count - 1, spectrum.numerical_rank(self.values, self.moments.count))


@dataclass(frozen=True, kw_only=True)
class Measures:
    """How many dimensions carry the representations; docs/diagnosis.md defines each measure."""

    samples: int
    dimensions: int
    maximum_rank: int
    effective_rank: float
    effective_rank_of_features: float
    rankme: float | None = None
    participation_ratio: float
    stable_rank: float
    numerical_rank: int
    significant_singular_values: int
    dimensions_for_90_percent: int
    dimensions_for_95_percent: int
    dimensions_for_99_percent: int
    power_law_exponent: float | None = None
    singular_value_variance: float
    mean_squared_correlation: float
    feddecorr_loss_paper: float
    feddecorr_loss_released: float
    dead_features: int
    singular_values: list[float] = field(repr=False)


def measure_spread(principal: Principal, *, rankme: bool = True) -> Measures:
    """Compute them all, or all but RankMe, the only one that takes the spectrum of another matrix."""
    moments, values = principal.moments, principal.values
    n, d = moments.count, len(values)
    seen = values[: principal.rank]  # below, roots and logarithms would make much of rounding
    return Measures(
        samples=n,
        dimensions=d,
        maximum_rank=min(n - 1, d),
        effective_rank=spectrum.effective_rank(values),
        effective_rank_of_features=spectrum.effective_rank(seen.sqrt()),
        rankme=spectrum.rankme(_uncentred(moments)) if rankme else None,
        participation_ratio=spectrum.participation_ratio(values),
        stable_rank=spectrum.stable_rank(values),
        numerical_rank=principal.rank,
        significant_singular_values=spectrum.significant(values),
        dimensions_for_90_percent=spectrum.dimensions_for(values, 0.90),
        dimensions_for_95_percent=spectrum.dimensions_for(values, 0.95),
        dimensions_for_99_percent=spectrum.dimensions_for(values, 0.99),
        power_law_exponent=spectrum.power_law_exponent(seen),
        singular_value_variance=spectrum.variance(values),
        dead_features=int((moments.scatter.diagonal() == 0).sum()),
        singular_values=values.tolist(),
        **_correlations(moments),
    )


def _uncentred(moments: Moments) -> Tensor:
    """Return the singular values of the features as they are, min(N, d) of them, largest first."""
    return spectrum.singular_values(moments.second)[: moments.count].sqrt()


def _correlations(moments: Moments) -> dict[str, float]:
    """Return how correlated features are, by three scales; a feature that never varies counts as uncorrelated."""
    n, d = moments.count, len(moments.mean)
    pairs = max(d * (d - 1), 1)
    variances = moments.scatter.diagonal()
    scale = torch.where(variances > 0, variances, 1.0).rsqrt()
    plain = (moments.scatter * scale[:, None] * scale).fill_diagonal_(0).square().sum()
    # As `decorrelation.feddecorr` on all samples at once, with its small number added to each unbiased variance.
    scale = (variances / (n - 1) + EPSILON).rsqrt()
    squares = (moments.scatter * scale[:, None] * scale / (n - 1)).square()
    return {
        "mean_squared_correlation": float(plain) / pairs,
        "feddecorr_loss_paper": float(squares.sum()) / d**2,
        "feddecorr_loss_released": float(squares.sum() - squares.diagonal().sum()) * (n - 1) ** 2 / (n * pairs),
    }


DOCUMENT = {"recorded": False}
"""Metadata of what is only in the document of a whole diagnosis: tables, names."""

MEMORY = {"recorded": False, "written": False}
"""Metadata of what is in no document: matrices and samples."""


def is_recorded(field: Field[Any]) -> bool:
    """Tell whether a run records it in every round."""
    return bool(field.metadata.get("recorded", True))


def is_written(field: Field[Any]) -> bool:
    """Tell whether it is in the document of a whole diagnosis."""
    return bool(field.metadata.get("written", True))


def effective_rank(z: Tensor) -> float:
    """Return how many dimensions carry features of shape (n, d): from 1 to min(n − 1, d), and 0 without any spread.

    It is exp of the entropy of the covariance's singular values (Roy and Vetterli, 2007), computed in float64.
    """
    return spectrum.effective_rank(Principal(Statistics.of(z.detach()).moments).values)
