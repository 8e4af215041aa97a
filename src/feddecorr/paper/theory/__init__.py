"""The paper's theory, made to run: gradient flow of deep linear networks (section 3.3 and appendix A).

Small pure functions of float64 arrays, in the paper's notation; docs/theory.md goes through them.
"""

from __future__ import annotations

from feddecorr.paper.theory.measurement import Measured, measure
from feddecorr.paper.theory.network import class_gradient_matrix, class_means_matrix, flow, gradients, loss
from feddecorr.paper.theory.singular_values import (
    Triplets,
    alignment,
    alignment_score,
    decompose,
    follow,
    frames,
    growth_by_lemma1,
    growth_by_lemma2,
    partners,
    predicted_growth,
)
from feddecorr.paper.theory.start import aligned_classifier, balanced_start, random_frame

__all__ = [
    "Measured",
    "Triplets",
    "aligned_classifier",
    "alignment",
    "alignment_score",
    "balanced_start",
    "class_gradient_matrix",
    "class_means_matrix",
    "decompose",
    "flow",
    "follow",
    "frames",
    "gradients",
    "growth_by_lemma1",
    "growth_by_lemma2",
    "loss",
    "measure",
    "partners",
    "predicted_growth",
    "random_frame",
]
