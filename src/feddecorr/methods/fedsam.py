"""FedSAM: local steps look for flat minima."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from pydantic import Field
from torch import Tensor

from feddecorr.methods.method import Local, Method

TINY = 1e-12


class FedSAM(Method):
    """Takes each local gradient at w + ρ·g/‖g‖, a step uphill (Qu et al., ICML 2022; Caldarola et al., ECCV 2022)."""

    rho: float = Field(0.05, ge=0, description="ρ, length of the step uphill; 0 is FedAvg")

    def gradient(self, local: Local, compute: Callable[[], Sequence[Tensor]]) -> Sequence[Tensor]:
        """Return the gradient uphill; weights and BatchNorm statistics are put back as they were."""
        parameters: list[Tensor] = list(local.model.parameters())
        state = [*parameters, *local.model.buffers()]
        uphill = list(compute())
        with torch.no_grad():
            kept = [tensor.clone() for tensor in state]
            norm = torch.stack(torch._foreach_norm(uphill)).norm()
            torch._foreach_add_(parameters, torch._foreach_mul(uphill, self.rho / (norm + TINY)))
        gradient = compute()
        with torch.no_grad():
            torch._foreach_copy_(state, kept)
        return gradient
