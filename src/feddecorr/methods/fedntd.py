"""FedNTD: what the global model knows of the other classes is not forgotten."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import kl_div, log_softmax

from feddecorr.methods.method import Method
from feddecorr.objective.reference_models import RoundReference
from feddecorr.objective.terms import ClientContext, Pass, Term


class FedNTD(Method):
    """Distils the global model's probabilities of all classes but the true one (Lee et al., NeurIPS 2022)."""

    term_names = ("distillation",)

    beta: float = Field(1.0, ge=0, description="β, weight of the distillation")
    temperature: float = Field(1.0, gt=0, description="τ, by which logits are divided")

    def terms(self, context: ClientContext) -> Mapping[str, Term]:
        """Return β times the mean divergence KL(global ‖ local) over the classes that are not true."""
        teacher = RoundReference(context)

        def distillation(forward: Pass) -> Tensor:
            mine = self._not_true(forward.logits, forward.y)
            theirs = self._not_true(teacher.logits(forward), forward.y)
            return self.beta * kl_div(mine, theirs, reduction="batchmean", log_target=True)

        return {"distillation": distillation}

    def _not_true(self, logits: Tensor, y: Tensor) -> Tensor:
        """Return the logarithms of the probabilities of the other classes, of shape (n, classes − 1)."""
        numbers = torch.arange(logits.shape[1] - 1, device=y.device)
        others = logits.gather(1, numbers + (numbers >= y.unsqueeze(1)))  # a mask would make an accelerator count
        return log_softmax(others / self.temperature, dim=1)
