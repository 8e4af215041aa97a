"""FedDr: features are fitted to a classifier that stays as it is, and held near the global model's."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, mse_loss

from feddecorr.collapse.representation import find_classifier
from feddecorr.errors import UserError
from feddecorr.methods.method import Method, Trains
from feddecorr.objective.reference_models import RoundReference
from feddecorr.objective.terms import ClientContext, Pass, Term


class FedDr(Method):
    """Replaces the cross-entropy by dot regression and feature distillation (Kim et al., FedDr+, 2024).

    Features are fitted to the classifier as it was sent, and no gradient reaches it. The paper's is a fixed simplex,
    `model.head=etf`; of any other head it is the one that was drawn at random in the beginning.
    """

    term_names = ("dot_regression", "feature_distillation")

    beta: float = Field(0.9, ge=0, le=1, description="β, weight of the dot regression; 1 − β is that of distillation")

    def trains(self, number: int) -> Trains:
        """Leave the classifier alone: weight decay would shrink it."""
        return "body"

    def terms(self, context: ClientContext) -> Mapping[str, Term | None]:
        """Return β·½(cos(z, v) − 1)², v the classifier's row of the true class, and (1 − β)·‖z − z_global‖²/d."""
        teacher = RoundReference(context)
        rows = _rows(find_classifier(context.model))

        def dot_regression(forward: Pass) -> Tensor:
            cosines = cosine_similarity(forward.z, rows[forward.y])
            return self.beta * (cosines - 1).square().mean() / 2

        def distillation(forward: Pass) -> Tensor:
            return (1 - self.beta) * mse_loss(forward.z, teacher.z(forward))

        return {"cross_entropy": None, "dot_regression": dot_regression, "feature_distillation": distillation}


def _rows(classifier: nn.Module) -> Tensor:
    """Return a copy of the classifier's weights, with a row for each class."""
    weight = getattr(classifier, "weight", None)
    if not isinstance(weight, Tensor) or weight.ndim < 2:
        raise UserError(f"feddr needs a classifier with weights for each class, not {classifier}")
    return weight.detach().flatten(1).clone()
