"""FedSOL: local steps that what the global model knows does not suffer from."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from pydantic import Field, PositiveFloat
from torch import Tensor
from torch.nn.functional import kl_div, log_softmax

from feddecorr.methods.method import Method
from feddecorr.objective.reference_models import RoundReference
from feddecorr.objective.terms import TINY, ClientContext, Compute, GradientRule, Pass, perturbed_gradient, scaled_to


class FedSOL(Method):
    """Takes each local gradient at w + ρ·Λg/‖g‖, g that of forgetting the global model (Lee et al., CVPR 2024).

    Forgetting is KL(global ‖ local) of the softened probabilities of all classes. Λ scales each weight's step by
    how far the weight has moved in this round: |w − wᵗ|, divided by its norm over the layer's outputs.
    """

    rho: float = Field(1.0, ge=0, description="ρ, length of the step before Λ; 0 is FedAvg")
    temperature: PositiveFloat = Field(3.0, description="τ, by which logits are divided")
    adaptive: bool = Field(True, description="scale steps by Λ; false: the same ρ for all weights")

    def gradient(self, context: ClientContext) -> GradientRule:
        """Take the gradient where the proximal objective is worse."""
        teacher = RoundReference(context)
        sent = context.as_parameter_list(context.broadcast.weights, trainable=True)

        def forgetting(forward: Pass) -> Tensor:
            mine = log_softmax(forward.logits / self.temperature, dim=1)
            theirs = log_softmax(teacher.logits(forward) / self.temperature, dim=1)
            return kl_div(mine, theirs, reduction="batchmean", log_target=True)

        def stabilized(compute: Compute) -> Sequence[Tensor]:
            shift = scaled_to(self.rho, compute(forgetting))
            if self.adaptive:
                shift = [step * _moved(*pair) for step, *pair in zip(shift, context.trainable, sent, strict=True)]
            return perturbed_gradient(context, shift, compute)

        return stabilized


@torch.no_grad()
def _moved(weight: Tensor, sent: Tensor) -> Tensor:
    gap = (weight - sent).abs()
    length: Tensor = torch.linalg.vector_norm(gap, dim=0, keepdim=True)
    return gap / length.clamp(min=TINY)
