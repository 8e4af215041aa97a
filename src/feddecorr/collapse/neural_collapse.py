"""What labels add: neural collapse, which is good, as opposed to dimensional collapse, which is not.

NC1 to NC4 are those of Papyan, Han and Donoho (2020). Among class means every class weighs the same, within classes
every sample. Of NC3 they plot the square, with a classifier that is not centred.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from feddecorr.collapse.measures import DOCUMENT, layer_values
from feddecorr.collapse.spectrum import effective_rank
from feddecorr.collapse.statistics import Batch, ClassSpread, Gathered, Statistics, centre


@dataclass(frozen=True, kw_only=True)
class ClassMeasures:
    """The geometry of the classes: None is what is unknown without labels, with a single class or no classifier."""

    classes: int | None = None
    class_mean_rank: float | None = None
    collapse_score: float | None = None
    within_class_share: float | None = None
    nc1_variability: float | None = None
    nc2_norm_variation: float | None = None
    nc2_cosine_variation: float | None = None
    nc2_cosine_gap: float | None = None
    nc3_duality_gap: float | None = None
    classifier_effective_rank: float | None = None
    classifier_singular_values: list[float] | None = field(default=None, repr=False)
    mean_per_class_effective_rank: float | None = None
    per_class_effective_rank: dict[str, float | None] | None = field(default=None, repr=False, metadata=DOCUMENT)
    per_class_samples: dict[str, int] | None = field(default=None, repr=False, metadata=DOCUMENT)
    class_mean_angles: list[list[float]] | None = field(default=None, repr=False, metadata=DOCUMENT)


def measure_classes(statistics: Statistics, classifier: Tensor | None = None) -> ClassMeasures:
    """Compute them all; `classifier` is the weight of the last layer, one row for each class."""
    if statistics.classes is None:
        return ClassMeasures()
    factors = dict(sorted(statistics.classes.items()))
    means = centre(torch.stack([factor.mean for factor in factors.values()]))[1]
    ranks = {str(label): factor.effective_rank() for label, factor in factors.items()}
    known = [rank for rank in ranks.values() if rank is not None]
    total = float(statistics.moments.scatter.trace())
    within = sum(factor.trace for factor in factors.values())
    norms, cosines = means.norm(dim=1), _cosines(means)
    spectrum = None if classifier is None else layer_values(classifier)
    pairs = cosines[torch.ones_like(cosines, dtype=torch.bool).triu(1)]
    have_angles = len(pairs) > 0 and bool(norms.all())
    mean_rank = effective_rank(torch.linalg.svdvals(means).square()) if len(factors) > 1 else None
    return ClassMeasures(
        classes=len(factors),
        class_mean_rank=mean_rank,
        collapse_score=None if mean_rank is None else max(0.0, 1 - mean_rank / min(len(factors) - 1, means.shape[1])),
        within_class_share=within / total if total > 0 else None,
        nc1_variability=_variability(statistics, means),
        nc2_norm_variation=_variation(norms),
        nc2_cosine_variation=float(pairs.std(correction=0)) if have_angles else None,
        nc2_cosine_gap=float((pairs + 1 / (len(factors) - 1)).abs().mean()) if have_angles else None,
        nc3_duality_gap=_duality_gap(means, classifier, list(factors)),
        classifier_effective_rank=None if spectrum is None else effective_rank(spectrum),
        classifier_singular_values=None if spectrum is None else spectrum.tolist(),
        mean_per_class_effective_rank=sum(known) / len(known) if known else None,
        per_class_effective_rank=ranks,
        per_class_samples={str(label): factor.count for label, factor in factors.items()},
        class_mean_angles=[
            [math.degrees(math.acos(cosine)) for cosine in row] for row in cosines.fill_diagonal_(1).tolist()
        ],
    )


def _variability(statistics: Statistics, means: Tensor) -> float | None:
    """Return NC1, tr(Σ_W Σ_B⁺)/C: the spread within classes measured by the spread between their means."""
    _, sizes, directions = torch.linalg.svd(means, full_matrices=False)
    seen = sizes > sizes[0] * max(means.shape) * torch.finfo(torch.float64).eps
    if len(means) < 2 or not sizes[seen].square().all() or sizes[0] == 0:  # too small to be squared, or nothing at all
        return None
    axes = directions[seen]  # the d-dimensional part without which Σ_B⁺ is zero
    total = ((axes @ statistics.moments.scatter) * axes).sum(1)
    classes: Mapping[int, ClassSpread] = statistics.classes or {}
    counts = axes.new_tensor([factor.count for factor in classes.values()])
    gaps = torch.stack([factor.mean - statistics.moments.mean for factor in classes.values()]) @ axes.T
    within = (total - counts @ gaps.square()).clamp(min=0) / statistics.moments.count
    # Σ_B is MᵀM/C with the centred class means for the rows of M, so Σ_B⁺ has C/s² along its axes.
    return float((within / sizes[seen].square()).sum())


def _variation(norms: Tensor) -> float | None:
    """Return the standard deviation by the mean; zero when all classes lie equally far from the centre."""
    mean = float(norms.mean())
    return float(norms.std(correction=0)) / mean if len(norms) > 1 and mean > 0 else None


def _cosines(means: Tensor) -> Tensor:
    directions = means / means.norm(dim=1, keepdim=True).clamp(min=torch.finfo(means.dtype).tiny)
    cosines: Tensor = (directions @ directions.T).clamp(-1, 1)
    return cosines


def _duality_gap(means: Tensor, classifier: Tensor | None, labels: list[int]) -> float | None:
    """Return NC3, ‖W/‖W‖_F − M/‖M‖_F‖_F; zero when the classifier's rows are the centred class means, scaled."""
    if classifier is None or classifier.ndim != 2 or classifier.shape[1] != means.shape[1]:
        return None
    if labels[0] < 0 or labels[-1] >= len(classifier) or float(means.norm()) == 0:
        return None
    rows = classifier.to(means)[labels]
    rows = rows - rows.mean(0)  # the same vector in all rows changes no decision
    if float(rows.norm()) == 0:
        return None
    return float((rows / rows.norm() - means / means.norm()).norm())


@dataclass(frozen=True, kw_only=True)
class DecisionMeasures:
    """`accuracy` and `loss` are of all samples, `nc4_disagreement` of those in the sample that is kept.

    `loss` is the mean cross-entropy, set by the evaluator, which sees the logits: a pass keeps decisions alone.
    """

    accuracy: float | None = None
    loss: float | None = None
    nc4_disagreement: float | None = None


def measure_decisions(gathered: Gathered) -> DecisionMeasures:
    """Compute accuracy and NC4, if there are labels and decisions."""
    classes = gathered.statistics.classes
    if gathered.right is None or classes is None:
        return DecisionMeasures()
    moments = gathered.statistics.moments
    return DecisionMeasures(
        accuracy=gathered.right / moments.count,
        nc4_disagreement=disagreement(gathered.sample.batch, classes, moments.mean),
    )


def disagreement(sample: Batch, classes: dict[int, ClassSpread], centre: Tensor) -> float | None:
    """Return NC4: the share of samples for which the model does not choose the class with the nearest mean."""
    if sample.decisions is None:
        return None
    labels = torch.tensor(list(classes), device=centre.device)
    means = torch.stack([factor.mean for factor in classes.values()]) - centre
    # ‖z − m‖² without the part that is the same for all classes; centred first, so that large means cost no digits.
    scores = (sample.z.to(means) - centre) @ means.T - means.square().sum(1) / 2
    nearest = labels[scores.argmax(1)]
    return float(torch.ne(nearest, sample.decisions).double().mean())
