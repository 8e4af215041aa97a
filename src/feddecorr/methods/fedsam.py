"""FedSAM: local steps look for flat minima."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field
from torch import Tensor

from feddecorr.methods.method import Method
from feddecorr.objective.terms import ClientContext, Compute, GradientRule, perturbed_gradient, scaled_to


class FedSAM(Method):
    """Takes each local gradient at w + ρ·g/‖g‖, a step uphill (Qu et al., ICML 2022; Caldarola et al., ECCV 2022)."""

    rho: float = Field(0.05, ge=0, description="ρ, length of the step uphill; 0 is FedAvg")

    def gradient(self, context: ClientContext) -> GradientRule:
        """Take the gradient uphill."""

        def uphill(compute: Compute) -> Sequence[Tensor]:
            return perturbed_gradient(context, scaled_to(self.rho, compute()), compute)

        return uphill
