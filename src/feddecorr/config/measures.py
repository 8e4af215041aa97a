"""Measures by name, and your own: one number about representations, computed with every evaluation."""

from __future__ import annotations

from dataclasses import fields

from pydantic import Field, PositiveInt

from feddecorr.collapse.diagnosis import ClassSpreads, Diagnosis
from feddecorr.collapse.measures import Principal
from feddecorr.core.registry import Config, Registry


class Measure(Config):
    """One number about the representations of the test images, recorded under its name."""

    def __call__(self, principal: Principal, classes: ClassSpreads | None) -> float | None:
        """Return the number, or None where there is none.

        `principal` holds count, mean and covariance of all representations, with its eigenvalues and eigenvectors;
        `classes` holds count, mean and spread of each class by its label. It is None where labels are not measured.
        """
        raise NotImplementedError


class ConditionNumber(Measure):
    """The largest eigenvalue of the covariance by the smallest that is more than rounding."""

    def __call__(self, principal: Principal, classes: ClassSpreads | None) -> float | None:  # noqa: ARG002
        """Return λ₁/λᵣ, with r the numerical rank."""
        return float(principal.values[0] / principal.values[principal.rank - 1]) if principal.rank else None


class ExplainedVariance(Measure):
    """The share of the variance along the strongest directions (scikit-learn's explained_variance_ratio_, summed)."""

    components: PositiveInt = Field(10, description="number of directions")

    def __call__(self, principal: Principal, classes: ClassSpreads | None) -> float | None:  # noqa: ARG002
        """Return Σλ₁…λₖ/Σλ."""
        total = float(principal.values.sum())
        return float(principal.values[: self.components].sum()) / total if total > 0 else None


MEASURES: Registry[Measure] = Registry(
    "measure", Measure, {"explained_variance": ExplainedVariance, "condition_number": ConditionNumber}
)

TAKEN = frozenset(each.name for each in fields(Diagnosis))
"""Names of what every diagnosis holds."""


def refuse_taken(measures: dict[str, Measure]) -> dict[str, Measure]:
    """Refuse a name that a diagnosis has for something else."""
    if found := sorted(measures.keys() & TAKEN):
        raise ValueError(f"{found[0]} is measured in any case: give your measure another name")
    return measures
