"""Measures without labels: of the spectrum and the correlations, of the weights, and of the likeness of two models."""

from __future__ import annotations

import math
from dataclasses import Field, dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from feddecorr.collapse import spectrum
from feddecorr.collapse.spectrum import dimensions_for
from feddecorr.collapse.statistics import CrossMoments, Moments
from feddecorr.errors import UserError
from feddecorr.loss.decorrelation import EPSILON

LARGEST = 1e150
"""Sums of squares below it have squares in float64, and so has all that is measured."""


@dataclass(frozen=True)
class Principal:
    """The principal directions of representations (columns, strongest first) and the variance along each."""

    moments: Moments

    def __post_init__(self) -> None:
        if self.moments.count < 2:
            raise UserError("one sample has no spread: a diagnosis needs at least two, better more than features")
        if not (self.moments.second.diagonal() < LARGEST).all():
            raise UserError("the representations are too large: their fourth powers must be float64 (scale them)")

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
    """Return whether a run records it in every round."""
    return bool(field.metadata.get("recorded", True))


def is_written(field: Field[Any]) -> bool:
    """Return whether it is in the document of a whole diagnosis."""
    return bool(field.metadata.get("written", True))


SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class WeightMeasures:
    """Spectra of the layers' weights, and the alignment of the classifier with the representations.

    `classifier_alignment` is the share of the classifier's squared weights, centred over the classes, that lie
    in the C − 1 strongest principal directions. `classifier_alignments` are |u_k·v_k'|, the paper's picture of
    its Assumption 2: u_k are principal directions, v_k' the classifier's right singular vectors.
    """

    classifier_alignment: float | None = None
    layer_effective_rank: dict[str, float] | None = field(default=None, repr=False, metadata=DOCUMENT)
    layer_singular_values: dict[str, list[float]] | None = field(default=None, repr=False, metadata=DOCUMENT)
    classifier_alignments: list[list[float]] | None = field(default=None, repr=False, metadata=DOCUMENT)


def measure_weights(model: nn.Module, classifier: Tensor | None, principal: Principal) -> WeightMeasures:
    """Measure every weight of two dimensions or more."""
    values = {name: layer_values(weight) for name, weight in weights(model).items()}
    return WeightMeasures(
        classifier_alignment=_alignment(classifier, principal),
        layer_effective_rank={name: spectrum.effective_rank(found) for name, found in values.items()},
        layer_singular_values={name: found.tolist() for name, found in values.items()},
        classifier_alignments=_alignments(classifier, principal),
    )


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the weights that are matrices, by the name of their layer; biases and scales are vectors."""
    return {
        name.removesuffix(".weight"): parameter.detach()
        for name, parameter in model.named_parameters()
        if parameter.ndim >= 2 and parameter.is_floating_point()
    }


def layer_values(weight: Tensor) -> Tensor:
    """Return the singular values, largest first, of the matrix that maps all inputs of a position to its outputs."""
    values: Tensor = torch.linalg.svdvals(weight.flatten(1).cpu().double())
    return values


def classifier_weight(layer: nn.Module) -> Tensor | None:
    """Return the weight of a layer that takes the representation in, with a row for each output."""
    weight = getattr(layer, "weight", None)
    if not isinstance(weight, Tensor) or weight.ndim < 2:
        return None
    rows = weight.detach().flatten(1).cpu().double()
    return rows if rows.shape[1] == weight.shape[1] else None  # a convolution over several positions is not a matrix


def _centred(classifier: Tensor | None, principal: Principal) -> Tensor | None:
    if classifier is None or classifier.shape[1] != len(principal.values):
        return None
    centred = classifier.to(principal.values) - classifier.to(principal.values).mean(0)
    return centred if float(centred.norm()) > 0 else None


def _alignment(classifier: Tensor | None, principal: Principal) -> float | None:
    centred = _centred(classifier, principal)
    if centred is None or len(centred) < 2:
        return None
    strongest = principal.directions[:, : len(centred) - 1]
    return float((centred @ strongest).square().sum() / centred.square().sum())


def _alignments(classifier: Tensor | None, principal: Principal) -> list[list[float]] | None:
    centred = _centred(classifier, principal)
    if centred is None:
        return None
    right = torch.linalg.svd(centred, full_matrices=False).Vh[:SHOWN]
    cosines: list[list[float]] = (right @ principal.directions[:, :SHOWN]).abs().tolist()
    return cosines


def linear_cka(together: CrossMoments, first: Moments, second: Moments) -> float | None:
    """Return linear CKA, ‖XᵀY‖²_F / (‖XᵀX‖_F ‖YᵀY‖_F) of centred features (Kornblith et al., ICML 2019).

    From 0 to 1; None where one of the two never varies.
    """
    size = float(first.scatter.norm() * second.scatter.norm())
    return min(1.0, float(together.scatter.square().sum()) / size) if size > 0 else None


def principal_angles(first: Principal, second: Principal, count: int) -> list[float]:
    """Return the angles between the spaces of the `count` strongest directions, in degrees, smallest first.

    After Björck and Golub (1973): cosines from one product, and sines, where cosines are inaccurate for small angles.
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
