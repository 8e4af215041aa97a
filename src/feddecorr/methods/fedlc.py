"""FedLC: rare classes get a larger margin."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import cross_entropy

from feddecorr.methods.method import Method
from feddecorr.objective.terms import ClientContext, Pass, Term


class FedLC(Method):
    """Lowers each logit by τ·n^(−1/4), with n the client's examples of its class (Zhang et al., ICML 2022).

    A class that the client lacks (n = 0) takes no part in its softmax.
    """

    term_names = ()

    tau: float = Field(1.0, ge=0, description="τ, size of the margins; 0 is FedAvg")

    def terms(self, context: ClientContext) -> Mapping[str, Term]:
        """Replace the cross-entropy by that of the calibrated logits."""
        counts = context.counts
        margins = torch.where(counts > 0, self.tau * counts.pow(-0.25), math.inf if self.tau else 0.0)

        def calibrated(forward: Pass) -> Tensor:
            return cross_entropy(forward.logits - margins, forward.y)

        return {"cross_entropy": calibrated}
