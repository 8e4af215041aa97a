"""FedVLS: classes that a client lacks are not forgotten, and rare ones are not outvoted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, log_softmax, one_hot

from feddecorr.methods.method import Method
from feddecorr.objective.reference_models import RoundReference
from feddecorr.objective.terms import ClientContext, Pass, Term

TINY_SHARE = 1e-9
RELEASED_SUPPRESSION = 0.005


class FedVLS(Method):
    """Distils the classes that a client lacks, and suppresses logits of wrong classes (Guo et al., AAAI 2025).

    The cross-entropy is balanced: log p is added to the logits, with p the client's share of each class.
    """

    term_names = ("vacant_distillation", "logit_suppression")

    weight: float = Field(0.1, ge=0, description="λ, weight of the distillation of classes that the client lacks")
    variant: Literal["published", "released"] = Field(
        "published",
        description="of the suppression; released: as in the authors' code, of balanced logits, where the true class "
        "counts with a logit of 0, at a weight of 0.005",
    )

    def terms(self, context: ClientContext) -> Mapping[str, Term]:
        """Return the balanced cross-entropy, λ·KL(global ‖ local) over vacant classes and the suppression."""
        counts = context.counts
        shares, vacant = counts / len(context.labels), counts == 0
        teacher = RoundReference(context)
        suppress = suppression if self.variant == "published" else released_suppression

        def balanced(forward: Pass) -> Tensor:
            return cross_entropy(forward.logits + shares.log(), forward.y)

        def distillation(forward: Pass) -> Tensor:
            mine, theirs = (
                log_softmax(logits[:, vacant], dim=1) for logits in (forward.logits, teacher.logits(forward))
            )
            return self.weight * kl_div(mine, theirs, reduction="batchmean", log_target=True)

        found: dict[str, Term] = {"cross_entropy": balanced}
        if int(vacant.sum()) > 1:  # of a single class, the softmax is 1
            found["vacant_distillation"] = distillation
        return {**found, "logit_suppression": lambda forward: suppress(forward.logits, forward.y, shares)}


def suppression(logits: Tensor, y: Tensor, shares: Tensor) -> Tensor:
    """Return Σ p·log(mean of e^logit over the samples of other classes); classes that all samples have are left out."""
    other = one_hot(y, logits.shape[1]) == 0
    count = other.sum(0)
    wrong = torch.where(other | (count == 0), logits, -math.inf)
    means = torch.logsumexp(wrong, dim=0) - count.clamp(min=1).log()
    return (shares * means * (count > 0)).sum()


def released_suppression(logits: Tensor, y: Tensor, shares: Tensor) -> Tensor:
    """Return 0.005·Σ p·log(mean of e^x), x the balanced logit of a wrong class and 0 for the true one."""
    n, classes = logits.shape
    balanced = logits - (shares + TINY_SHARE).log() + math.log(1 / classes + TINY_SHARE)
    wrong = balanced * (one_hot(y, classes) == 0)
    return RELEASED_SUPPRESSION * (shares * (torch.logsumexp(wrong, dim=0) - math.log(n))).sum()
