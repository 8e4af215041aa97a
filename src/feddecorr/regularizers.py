"""Regularizers by name: terms that any method's objective can be given."""

from __future__ import annotations

from pydantic import Field
from torch import Tensor

from feddecorr.decorrelation import Normalization, feddecorr
from feddecorr.kinds import Family, Kind
from feddecorr.objective import Pass


class Regularizer(Kind):
    """A term of the local objective that knows nothing of the federated method."""

    def __call__(self, forward: Pass) -> Tensor:
        """Return the weighted term."""
        raise NotImplementedError


class FedDecorr(Regularizer):
    """Decorrelates the dimensions of the representation (Shi et al., ICLR 2023)."""

    beta: float = Field(0.1, ge=0, description="weight of the term")
    normalization: Normalization = Field("released", description="scale: the authors' code, or the paper's formula")

    def __call__(self, forward: Pass) -> Tensor:
        """Return β times the loss of the batch's representations."""
        return self.beta * feddecorr(forward.z, self.normalization)


REGULARIZERS = Family("regularizer", Regularizer, {"feddecorr": FedDecorr})
