"""FedGELA: one simplex for everybody, of which each client sees a class the longer the more of it there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor
from torch.nn.functional import cross_entropy

from feddecorr.methods.method import Method, Trains
from feddecorr.objective.terms import ClientContext, Pass, Term


class FedGELA(Method):
    """Scales the rows of a fixed simplex by C·n/Σn, with n the client's examples of a class (Fan et al., NeurIPS 2023).

    The global model has the simplex as it is, `model.head=etf`, whose scale is fixed, too.
    """

    requires: ClassVar[Mapping[str, str]] = {"model.head": "etf"}
    term_names = ()

    def trains(self, number: int) -> Trains:
        """Leave the simplex and its scale alone."""
        return "body"

    def terms(self, context: ClientContext) -> Mapping[str, Term]:
        """Replace the cross-entropy by that of the client's own classifier."""
        lengths = context.classes * context.counts / len(context.labels)

        def adapted(forward: Pass) -> Tensor:
            return cross_entropy(forward.logits * lengths, forward.y)

        return {"cross_entropy": adapted}
