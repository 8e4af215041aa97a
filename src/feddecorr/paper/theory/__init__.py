"""The paper's theory, made to run: gradient flow of deep linear networks (section 3.3 and appendix A).

Small pure functions of float64 arrays, in the paper's notation; docs/theory.md goes through them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from feddecorr.paper.theory.integration import flow
    from feddecorr.paper.theory.matching import Triplets, decompose, follow, partners
    from feddecorr.paper.theory.measurement import Measured, measure
    from feddecorr.paper.theory.network import class_gradient_matrix, class_means_matrix, gradients, loss
    from feddecorr.paper.theory.overlap import alignment, alignment_score
    from feddecorr.paper.theory.prediction import frames, growth_by_lemma1, growth_by_lemma2, predicted_growth
    from feddecorr.paper.theory.start import aligned_classifier, balanced_start, random_frame

_HOMES = {
    "Measured": "measurement",
    "Triplets": "matching",
    "aligned_classifier": "start",
    "alignment": "overlap",
    "alignment_score": "overlap",
    "balanced_start": "start",
    "class_gradient_matrix": "network",
    "class_means_matrix": "network",
    "decompose": "matching",
    "flow": "integration",
    "follow": "matching",
    "frames": "prediction",
    "gradients": "network",
    "growth_by_lemma1": "prediction",
    "growth_by_lemma2": "prediction",
    "loss": "network",
    "measure": "measurement",
    "partners": "matching",
    "predicted_growth": "prediction",
    "random_frame": "start",
}

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


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: the command line's options alone load no solver."""
    if name in _HOMES:
        return getattr(import_module(f"feddecorr.paper.theory.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'feddecorr.paper.theory' has no attribute '{name}'")
