"""The answer in words: which measures there are, and what they suggest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from feddecorr.loss.dying import RISE

if TYPE_CHECKING:
    from feddecorr.collapse.diagnosis import Diagnosis

MEANINGS = {
    "samples": "samples that were seen",
    "dimensions": "features, d",
    "maximum_rank": "dimensions that this many samples can span: min(samples − 1, d)",
    "effective_rank": "exp of the entropy of the covariance's singular values",
    "effective_rank_of_features": "the same of the centred features' singular values",
    "rankme": "the same of the features as they are, not centred",
    "participation_ratio": "(Σλ)² / Σλ²",
    "stable_rank": "Σλ / λ₁",
    "numerical_rank": "singular values that are more than rounding",
    "significant_singular_values": "singular values above τ, log τ = −2",
    "dimensions_for_90_percent": "principal directions that hold 90 % of the variance",
    "dimensions_for_95_percent": "principal directions that hold 95 % of the variance",
    "dimensions_for_99_percent": "principal directions that hold 99 % of the variance",
    "power_law_exponent": "a of the best fit λ_k ∝ k⁻ᵃ",
    "singular_value_variance": "L_singular: variance of the singular values",
    "mean_squared_correlation": "mean square of the correlations between two features",
    "feddecorr_loss_paper": "‖K‖²_F / d², the paper's formula",
    "feddecorr_loss_released": "the same as the authors' code scales it",
    "dead_features": "features that never vary",
    "classes": "classes among the labels",
    "within_class_share": "share of the variance that is within classes",
    "nc1_variability": "NC1: spread within classes by spread between them; 0 when collapsed",
    "nc2_norm_variation": "NC2: do class means lie equally far from the centre? 0: yes",
    "nc2_cosine_variation": "NC2: are the angles between class means equal? 0: yes",
    "nc2_cosine_gap": "NC2: are the angles as wide as they can be? 0: yes",
    "nc3_duality_gap": "NC3: are the classifier's rows the class means? 0: yes, 2: opposite",
    "mean_per_class_effective_rank": "mean of the effective ranks within each class",
    "accuracy": "share of right decisions",
    "loss": "mean cross-entropy",
    "nc4_disagreement": "NC4: share of decisions other than the nearest class mean",
    "classifier_alignment": "share of the classifier that lies in the strongest directions",
    "reference": "what it is compared to",
    "linear_cka": "likeness to the reference, from 0 to 1",
    "mean_principal_angle": "degrees between its strongest directions and the reference's",
}
"""What each measure is that is one number, in the order of the table."""

FEW, LITTLE = 0.1, 0.5
"""Shares of the dimensions that would be needed, or are possible, below which words become strong or cautious."""


def rows(found: Diagnosis) -> list[list[str]]:
    """Return the table of all measures that could be told."""
    told = {name: getattr(found, name) for name in MEANINGS}
    known = [[name, _cell(value), MEANINGS[name]] for name, value in told.items() if value is not None]
    return known + [[name, _cell(value), "a further measure"] for name, value in (found.measures or {}).items()]


def _cell(value: float | str) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def sentences(found: Diagnosis, reference: Diagnosis | None = None) -> Iterator[str]:
    """Yield a few sentences: how many dimensions carry the representation, compared with what, and so what."""
    most, d = found.maximum_rank, found.dimensions
    yield (
        f"{found.name}: in effect {found.effective_rank:.1f} of {most} possible dimensions carry the representation "
        f"({found.dimensions_for_99_percent} hold 99 % of the variance, "
        f"{found.significant_singular_values} singular values are significant)."
    )
    if reference is not None and reference.name != found.name:
        yield _compared(found, reference)
    yield _verdict(found)
    if found.dead_features:
        yield f"{found.dead_features} of {d} features never vary."
    if found.dead_features >= RISE * d:
        yield (
            "To FedDecorr a feature that never varies is uncorrelated: if it took part, it may have killed them. "
            "regularizers.feddecorr.dying=counted, or FedDecorrLoss(dying='counted'), works against that."
        )
    if most < d:
        yield f"{found.samples} samples cannot fill {d} dimensions: no rank can be above {most}; use more samples."


def _compared(found: Diagnosis, reference: Diagnosis) -> str:
    mine, theirs = found.effective_rank, reference.effective_rank
    if theirs == 0:
        return f"{reference.name} has no variance to compare it with."
    said = "about as many" if 0.9 < mine / theirs < 1.1 else f"{mine / theirs:.2f} times as many"
    alike = found.linear_cka if found.reference == reference.name else None
    end = "" if alike is None else f"; the representations are alike to {alike:.2f} (linear CKA, 1 is the same)"
    return f"That is {said} as of {reference.name} ({theirs:.1f}){end}."


def _verdict(found: Diagnosis) -> str:
    rank, most, classes, within = found.effective_rank, found.maximum_rank, found.classes, found.within_class_share
    if rank == 0:
        return "All samples have the same representation: a total collapse."
    needed = None if classes is None or classes < 2 else min(classes - 1, most)
    if needed is not None and within is not None and within < FEW and rank > LITTLE * needed:
        return (
            f"Classes are tight and their {classes} means use the {needed} dimensions that they need: neural collapse, "
            "which is good, and no dimensional collapse."
        )
    if needed is not None and rank < LITTLE * needed:
        return (
            f"To keep {classes} classes apart takes up to {needed} dimensions: this representation has collapsed. "
            "FedDecorr (regularizers=feddecorr) works against that."
        )
    if rank < FEW * most:
        return (
            f"That is less than {100 * FEW:.0f} % of what is possible: a strong dimensional collapse, unless the task "
            "needs no more (compare with a model trained on homogeneous data)."
        )
    if rank < LITTLE * most:
        return "That is less than half of what is possible, as usual for trained networks: compare with another model."
    return "No sign of dimensional collapse."
