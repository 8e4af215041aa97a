"""What a model's decisions add: how often they are right, and whether the nearest class mean would do (NC4)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from feddecorr.collapse.factor import Factor
from feddecorr.collapse.gathered import Batch, Gathered


@dataclass(frozen=True)
class DecisionMeasures:
    """`accuracy` is a fraction of all samples; `nc4_disagreement` of those in the sample that is kept."""

    accuracy: float
    nc4_disagreement: float | None

    @classmethod
    def of(cls, gathered: Gathered) -> DecisionMeasures | None:
        """Compute both, if there are labels and decisions."""
        classes = gathered.statistics.classes
        if gathered.right is None or classes is None:
            return None
        accuracy = gathered.right / gathered.statistics.moments.count
        return cls(accuracy, disagreement(gathered.sample.batch, classes, gathered.statistics.moments.mean))


def disagreement(sample: Batch, classes: dict[int, Factor], centre: Tensor) -> float | None:
    """Return NC4: the share of samples for which the model does not choose the class with the nearest mean."""
    if sample.decisions is None:
        return None
    labels = torch.tensor(list(classes), device=centre.device)
    means = torch.stack([factor.mean for factor in classes.values()]) - centre
    # ‖z − m‖² without the part that is the same for all classes; centred first, so that large means cost no digits.
    scores = (sample.z.to(means) - centre) @ means.T - means.square().sum(1) / 2
    nearest = labels[scores.argmax(1)]
    return float(torch.ne(nearest, sample.decisions).double().mean())
