"""FedProx: local training is held near the weights that the server sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from feddecorr.methods.method import Method
from feddecorr.objective.terms import ClientContext, Term, proximal


class FedProx(Method):
    """Adds (μ/2)·‖w − wᵗ‖² to the local objective, with wᵗ the weights sent (Li et al., MLSys 2020)."""

    term_names = ("proximal",)

    mu: float = Field(1e-3, ge=0, description="weight of the proximal term")
    variant: Literal["published", "released"] = Field(
        "published", description="released: as in the code of FedDecorr's authors, where the term is always zero"
    )

    def terms(self, context: ClientContext) -> Mapping[str, Term]:
        """Return the proximal term; the authors' code measures the distance of the live weights to themselves."""
        weight = self.mu if self.variant == "published" else 0.0
        return {"proximal": proximal(weight, context.as_parameter_list(context.broadcast.weights))}
