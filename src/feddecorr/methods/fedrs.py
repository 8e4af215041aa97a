"""FedRS: classes that a client does not hold are pushed away less."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import cross_entropy

from feddecorr.methods.method import Method
from feddecorr.objective.terms import ClientContext, Pass, Term


class FedRS(Method):
    """Restricts the softmax: logits of classes that the client lacks are scaled by α (Li and Zhan, KDD 2021)."""

    term_names = ()

    alpha: float = Field(0.5, ge=0, le=1, description="scale of the logits of missing classes; 1 is FedAvg")

    def terms(self, context: ClientContext) -> Mapping[str, Term]:
        """Replace the cross-entropy by that of the restricted softmax."""
        counts = context.counts
        scale = torch.where(counts > 0, torch.ones_like(counts), self.alpha)

        def restricted(forward: Pass) -> Tensor:
            return cross_entropy(forward.logits * scale, forward.y)

        return {"cross_entropy": restricted}
