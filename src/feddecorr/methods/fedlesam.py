"""FedLESAM: local steps look for minima that are flat for everybody, in one pass."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field
from torch import Tensor

from feddecorr.core.states import State
from feddecorr.methods.method import Method
from feddecorr.objective.terms import ClientContext, Compute, GradientRule, Trained, perturbed_gradient, scaled_to


class FedLESAM(Method):
    """Takes each local gradient at w + ρ·(w_old − wᵗ)/‖w_old − wᵗ‖, where SAM needs two passes (Fan et al., ICML 2024).

    w_old is the global model that the client was sent the last time. In its first round it takes plain steps.
    """

    state_optional = True

    rho: float = Field(0.05, ge=0, description="ρ, length of the step back along the global update; 0 is FedAvg")

    def gradient(self, context: ClientContext) -> GradientRule:
        """Take the gradient where the global model came from."""
        if not context.memory:
            return super().gradient(context)
        last, now = (
            context.as_parameter_list(state, trainable=True) for state in (context.memory, context.broadcast.weights)
        )
        shift = scaled_to(self.rho, [before - after for before, after in zip(last, now, strict=True)])

        def back(compute: Compute) -> Sequence[Tensor]:
            return perturbed_gradient(context, shift, compute, counts=True)

        return back

    def finish(self, context: ClientContext, trained: Trained) -> tuple[State, State]:
        """Remember the model that was sent."""
        return {}, context.broadcast.weights
