"""What a model's decisions add: how often they are right, and whether the nearest class mean would do (NC4)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from feddecorr.collapse.class_spread import ClassSpread
from feddecorr.collapse.gathered import Batch, Gathered


@dataclass(frozen=True, kw_only=True)
class DecisionMeasures:
    """`accuracy` and `loss` are of all samples, `nc4_disagreement` of those in the sample that is kept.

    `loss` is the mean cross-entropy, for whoever sees the logits to set: a pass leaves decisions alone.
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
