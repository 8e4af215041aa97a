"""Two models on the same samples: how alike their representations are."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from feddecorr.collapse.measures import DOCUMENT, Principal
from feddecorr.collapse.spectrum import dimensions_for
from feddecorr.collapse.statistics import Moments, centre
from feddecorr.errors import UserError


@dataclass(frozen=True)
class CrossMoments:
    """Count, both means and Σ(x−x̄)(y−ȳ)ᵀ of two representations of the same samples, in float64.

    Merged like `Moments`.
    """

    count: int
    first: Tensor
    second: Tensor
    scatter: Tensor

    @classmethod
    def of(cls, x: Tensor, y: Tensor) -> CrossMoments:
        """Return the statistics of one batch: (n, d) and (n, e)."""
        if len(x) != len(y):
            raise UserError(f"{len(x)} and {len(y)} samples cannot be compared one by one")
        (first, moved), (second, others) = centre(x), centre(y)
        return cls(len(x), first, second, moved.T @ others)

    def __add__(self, other: CrossMoments) -> CrossMoments:
        count = self.count + other.count
        share = other.count / count
        gap, others = other.first - self.first, other.second - self.second
        scatter = torch.addr(self.scatter + other.scatter, gap, others, alpha=self.count * share)
        return CrossMoments(count, self.first + gap * share, self.second + others * share, scatter)


def linear_cka(together: CrossMoments, first: Moments, second: Moments) -> float | None:
    """Return linear CKA, ‖XᵀY‖²_F / (‖XᵀX‖_F ‖YᵀY‖_F) of centred features (Kornblith et al., ICML 2019).

    From 0 to 1; None where one of the two never varies.
    """
    size = float(first.scatter.norm() * second.scatter.norm())
    return min(1.0, float(together.scatter.square().sum()) / size) if size > 0 else None


def principal_angles(first: Principal, second: Principal, count: int) -> list[float]:
    """Return the angles between the spaces of the `count` strongest directions, in degrees, smallest first.

    After Björck and Golub (1973): cosines from one product, and sines, where cosines tell small angles badly.
    """
    one, other = first.directions[:, :count], second.directions[:, :count]
    product = one.T @ other
    cosines = torch.linalg.svdvals(product).clamp(0, 1)
    sines = torch.linalg.svdvals(other - one @ product).clamp(0, 1).flip(0)
    small = cosines.square() > 0.5
    return torch.where(small, sines.asin(), cosines.acos()).rad2deg().tolist()


@dataclass(frozen=True, kw_only=True)
class ReferenceMeasures:
    """How alike two representations are: to a reference, which `reference` names."""

    reference: str | None = field(default=None, metadata=DOCUMENT)
    linear_cka: float | None = None
    mean_principal_angle: float | None = None
    principal_angles: list[float] | None = field(default=None, repr=False, metadata=DOCUMENT)


def compare(reference: str, mine: Principal, theirs: Principal, together: CrossMoments | None) -> ReferenceMeasures:
    """Compare; the angles are between the spaces that hold 90 % of the reference's variance.

    Without statistics of both together (other samples), there is no CKA; with other widths, no angles.
    """
    cka = None if together is None else linear_cka(together, mine.moments, theirs.moments)
    if len(mine.values) != len(theirs.values):
        return ReferenceMeasures(reference=reference, linear_cka=cka)
    angles = principal_angles(mine, theirs, dimensions_for(theirs.values, 0.9))
    return ReferenceMeasures(
        reference=reference,
        linear_cka=cka,
        mean_principal_angle=math.fsum(angles) / len(angles) if angles else None,
        principal_angles=angles,
    )
