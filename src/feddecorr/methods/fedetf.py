"""FedETF: all clients share a simplex for a classifier, under a softmax that knows which classes they have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor
from torch.nn.functional import cross_entropy

from feddecorr.methods.method import Method
from feddecorr.objective.terms import ClientContext, Pass, Term


class FedETF(Method):
    """Trains projected features and a scale towards a fixed simplex by balanced softmax (Li et al., ICCV 2023).

    The simplex, the projection before it and the scale are `model.head=etf`; balanced are the logits by log n, with n
    the client's examples of each class.
    """

    requires: ClassVar[Mapping[str, str]] = {"model.head": "etf"}
    term_names = ()

    def terms(self, context: ClientContext) -> Mapping[str, Term]:
        """Replace the cross-entropy by that of the balanced softmax."""
        offsets = context.counts.log()

        def balanced(forward: Pass) -> Tensor:
            return cross_entropy(forward.logits + offsets, forward.y)

        return {"cross_entropy": balanced}
