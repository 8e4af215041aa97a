"""MOON: representations are drawn to the global model's and away from the client's own last ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from pydantic import Field
from torch import Tensor
from torch.nn.functional import cosine_similarity, softplus

from feddecorr.core.states import State
from feddecorr.methods.method import Method
from feddecorr.objective.reference_models import RoundReference
from feddecorr.objective.terms import ClientContext, Pass, Term, Trained


class MOON(Method):
    """Adds a contrast of the global and the client's last model (Li, He and Song, CVPR 2021).

    The projection head of the paper is an option of the model (`model.projection=256`).
    """

    state_optional = True
    term_names = ("contrast",)

    mu: float = Field(1.0, ge=0, description="weight of the contrastive term")
    temperature: float = Field(0.5, gt=0, description="τ, by which similarities are divided")
    variant: Literal["published", "released"] = Field(
        "published", description="released: as in the code of FedDecorr's authors, which never uses the temperature"
    )

    def terms(self, context: ClientContext) -> Mapping[str, Term]:
        """Return μ times the mean of −log(e^{s/τ} / (e^{s/τ} + e^{p/τ})).

        s and p are the similarities (cosines) of z to what the global and the client's last model make of x.
        """
        if not context.memory:
            # Before its first round a client's last model is the global one: both similarities are the same,
            # whatever the weights, so the term is constant and its gradient zero.
            return {"contrast": lambda forward: forward.z.new_full((), self.mu * math.log(2))}
        temperature = self.temperature if self.variant == "published" else 1.0
        towards = RoundReference(context)
        away = RoundReference(context, context.memory)

        def contrast(forward: Pass) -> Tensor:
            positive = cosine_similarity(forward.z, towards.z(forward))
            negative = cosine_similarity(forward.z, away.z(forward))
            return self.mu * softplus((negative - positive) / temperature).mean()

        return {"contrast": contrast}

    def finish(self, context: ClientContext, trained: Trained) -> tuple[State, State]:
        """Remember the trained model with its BatchNorm statistics."""
        return {}, {**trained.weights, **trained.buffers}
