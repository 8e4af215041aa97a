"""The paper's regularization term, as pure functions of a batch of representations."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Normalization = Literal["paper", "released"]

EPSILON = 1e-8
"""Added to each variance: a feature that never varies gives zeros, and its gradient stays bounded."""


def feddecorr(z: Tensor, normalization: Normalization = "released") -> Tensor:
    """Return the FedDecorr loss of representations `z` of shape (n, d).

    `paper` is equation 8, ‖K‖²_F / d², with K the correlation matrix. `released` is what the authors' code
    computes: the mean square of the off-diagonal entries of (n−1)·K, divided by n. They are related by
    released = ((n−1)² / n) · (d·paper − 1) / (d−1), so one β acts about n times stronger under `released`.

    Computed in float32 at least, whatever autocast is in force.
    """
    n, d = z.shape
    with torch.autocast(z.device.type, enabled=False):
        scores = standardize(z if z.dtype == torch.float64 else z.float())
        # ‖ẐᵀẐ‖_F = ‖ẐẐᵀ‖_F: the smaller of the two products does.
        gram = scores @ scores.T if n < d else scores.T @ scores
        squares = gram.square().sum() / n**2
        if normalization == "paper":
            return squares / d**2
        diagonal = scores.square().mean(0).square().sum()
        return (squares - diagonal) * (n - 1) ** 2 / (n * d * max(d - 1, 1))


def standardize(z: Tensor) -> Tensor:
    """Return the z-scores of each feature over the batch, by the biased standard deviation."""
    centred = z - z.mean(0)
    return centred * torch.rsqrt(centred.square().mean(0) + EPSILON)
