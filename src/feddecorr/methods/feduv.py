"""FedUV: local training is made to look as if the client held all classes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor

from feddecorr.methods.method import Method
from feddecorr.objective.terms import ClientContext, Term


class FedUV(Method):
    """Adds terms for uniform representations and varied predictions (Son et al., CVPR 2024)."""

    term_names = ("representation_uniformity", "prediction_variance")

    uniformity: float = Field(0.5, ge=0, description="μ, weight of the uniformity of the representations")
    variance: float = Field(2.5, ge=0, description="λ, weight of the variance of the predictions")

    def terms(self, context: ClientContext) -> Mapping[str, Term]:
        """Return the two terms, weighted."""
        return {
            "representation_uniformity": lambda forward: self.uniformity * uniformity(forward.z),
            "prediction_variance": lambda forward: self.variance * variance(forward.logits),
        }


def uniformity(z: Tensor) -> Tensor:
    """Return the mean over all pairs of exp(−‖zᵢ−zⱼ‖²/σ), with σ the median of those squares that are not 0.

    Scaling the representations changes nothing. Of points that are all the same, there is nothing to spread: 0.
    """
    if len(z) == 1:
        return z.sum() * 0
    squares = torch.pdist(z).square()
    apart = (squares > 0).sum()
    middle = _median_of_positive(squares, apart)
    return torch.exp(-squares / torch.where(apart > 0, middle, 1.0)).mean() * (apart > 0)


def _median_of_positive(squares: Tensor, count: Tensor) -> Tensor:
    """Return the lower median of those above 0, with PyTorch's gradient, and without the host being asked anything."""
    known = squares.detach()
    place = (known == 0).sum() + (count - 1).div(2, rounding_mode="floor").clamp(min=0)
    median = known.sort().values.gather(0, place.clamp(max=len(known) - 1).view(1)).squeeze(0)
    equal = known == median
    mean = (squares * equal).sum() / equal.sum()
    return median + (mean - mean.detach())


def variance(logits: Tensor) -> Tensor:
    """Return how far, on average, each class's probability varies less over the batch than with all classes.

    Where every class comes equally often and is predicted surely, the standard deviation is 1/√classes.
    """
    if len(logits) == 1:
        return logits.sum() * 0
    spread = logits.softmax(1).std(0)
    return torch.relu(logits.shape[1] ** -0.5 - spread).mean()
