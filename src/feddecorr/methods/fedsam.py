"""FedSAM: local steps look for flat minima."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from pydantic import Field
from torch import Tensor

from feddecorr.methods.method import Local, Method
from feddecorr.states import copy_into, norm

TINY = 1e-12


class FedSAM(Method):
    """Takes each local gradient at w + ρ·g/‖g‖, a step uphill (Qu et al., ICML 2022; Caldarola et al., ECCV 2022)."""

    rho: float = Field(0.05, ge=0, description="ρ, length of the step uphill; 0 is FedAvg")

    def gradient(self, local: Local, compute: Callable[[], Sequence[Tensor]]) -> Sequence[Tensor]:
        """Return the gradient uphill; weights and BatchNorm statistics are put back as they were."""
        trainable = local.trainable
        state = [*trainable, *local.model.buffers()]
        uphill = compute()
        kept = [tensor.detach().clone() for tensor in state]
        with torch.no_grad():
            length = self.rho / (norm(uphill) + TINY)
            for parameter, slope in zip(trainable, uphill, strict=True):
                parameter.add_(slope * length)
        gradient = compute()
        copy_into(state, kept)
        return gradient
