"""The FedDecorr term as the flow takes it."""

from __future__ import annotations

import numpy as np
import torch

from feddecorr.core.threads import threads
from feddecorr.loss.decorrelation import Normalization, feddecorr
from feddecorr.paper.theory.network import Array, Term


def decorrelation_term(beta: float, normalization: Normalization) -> Term:
    """Return the gradient of N·β·L_FedDecorr by the representations: N, because the flow follows the summed loss."""

    @threads(1)  # matrices this small only wait for more
    def term(z: Array) -> Array:
        columns = torch.from_numpy(np.ascontiguousarray(z.T)).requires_grad_()
        loss = z.shape[1] * beta * feddecorr(columns, normalization)
        (gradient,) = torch.autograd.grad(loss, columns)
        return np.asarray(gradient.numpy().T)

    return term
