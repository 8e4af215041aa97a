"""Losses over pairs of samples: how near to each other their representations lie on the unit sphere.

As pure functions, with the promises of `feddecorr.loss.decorrelation`; but directions from the origin matter here, so
shifting all representations changes the loss, and n×n similarities are made whatever d is.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import normalize

from feddecorr.errors import UserError
from feddecorr.loss.decorrelation import between_rows, loss_of_batches

SHORTEST = 1e-6
"""Representations shorter than this are not stretched to length 1: it bounds the gradient."""


@loss_of_batches
def uniformity(z: Tensor, t: float = 2.0) -> Tensor:
    """Return log of the mean of exp(−t·‖u−v‖²) over all pairs of samples (Wang and Isola, ICML 2020).

    Zero if all samples have one direction, less the more evenly they lie on the sphere. FedUV's term is the mean of
    the same kernel without the logarithm, not on the sphere, with t one over the median of the squared distances.
    """
    cosines = _cosines(z)
    above = torch.ones_like(cosines, dtype=torch.bool).triu(1)
    # On the sphere ‖u−v‖² is 2 − 2·cos.
    exponents = (2 * t * (cosines - 1)).masked_fill(~above, -math.inf)
    return torch.logsumexp(exponents.flatten(), 0) - math.log(math.comb(len(z), 2))


@loss_of_batches
def supervised_contrastive(
    z: Tensor, labels: Tensor, temperature: float = 0.05, beta: float = 1.0, threshold: float = 0.7
) -> Tensor:
    """Return the relaxed supervised contrast of FedRCL (Seo et al., CVPR 2024).

    For a sample i with others of its class, cosines s and temperature τ, the mean over those j of
    −log(e^{s_ij/τ} / Σ_{k≠i} e^{s_ik/τ}) (Khosla et al., NeurIPS 2020), plus β times the divergence penalty
    log(1 + Σ_j e^{(s_ij − 1)/τ}) over those of them that are too near, s_ij > threshold. Averaged over such i;
    zero where no class has two samples.
    """
    if labels.shape != z.shape[:1]:
        raise UserError(f"{len(z)} samples need as many labels, not labels of shape {tuple(labels.shape)}")
    cosines = _cosines(z)
    itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
    alike = (labels[:, None] == labels) & ~itself
    scores = cosines / temperature
    among_others = torch.logsumexp(scores.masked_fill(itself, -math.inf), dim=1, keepdim=True)
    count = alike.sum(1)
    pulled = ((among_others - scores) * alike).sum(1) / count.clamp(min=1)
    crowded = alike & (cosines.detach() > threshold)
    # The one sample that is as near as can be is the sample itself.
    exponents = (scores - 1 / temperature).masked_fill(~crowded, -math.inf).masked_fill(itself, 0.0)
    penalty = torch.logsumexp(exponents, dim=1)
    paired = count > 0
    return ((pulled + beta * penalty) * paired).sum() / paired.sum().clamp(min=1)


def _cosines(z: Tensor) -> Tensor:
    return between_rows(normalize(z, dim=1, eps=SHORTEST))
