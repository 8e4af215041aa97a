"""From all classes to one: how the rank of G, of the product and of the representations fall together."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from feddecorr.collapse.spectrum import effective_rank
from feddecorr.paper.theory.network import (
    Array,
    ProgressCallback,
    class_gradient_matrix,
    integrate,
    loss,
    no_progress,
    partial_progress,
    product,
    representation_covariance,
)
from feddecorr.paper.theory.singular_values import spectrum
from feddecorr.paper.theory.start import class_sizes, draw_data, draw_start
from feddecorr.paper.theory.studies.flow import GREW
from feddecorr.paper.theory_settings import ClassSweep
from feddecorr.report.picture import Panel, Picture, Series, StudyContent

REFERENCE_PER_CLASS = 40
"""Samples of each class on which representations are compared, whatever was trained on."""

RANKS = {
    "gradient": "G at the start",
    "product": "Π at the end",
    "covariance": "Σ at the end",
}


def study_sweep(settings: ClassSweep, progress: ProgressCallback = no_progress) -> StudyContent:
    """Train on ever fewer frequent classes and measure the ranks."""
    reference, _ = draw_data(settings, np.full(settings.classes, REFERENCE_PER_CLASS), "reference")
    count = settings.classes
    steps = [
        _train(settings, count - done, reference, partial_progress(progress, done / count, (done + 1) / count))
        for done in range(count)
    ]
    rows = [
        [
            str(step["frequent"]),
            *(f"{step['effective_rank'][key]:.2f}" for key in RANKS),
            str(step["grown"]),
            f"{step['mean_loss']:.4f}",
        ]
        for step in steps
    ]
    classes = [step["frequent"] for step in steps]
    lines = [Series(classes, [step["effective_rank"][key] for step in steps], name=name) for key, name in RANKS.items()]
    picture = Picture(
        "ranks",
        "Fewer classes, lower ranks",
        "Effective ranks (the exponential of the entropy of the normalized singular values). The covariance Σ is that "
        "of the representations of the same inputs of all classes, whatever was trained on.",
        ("frequent classes in the training data", "effective rank"),
        [Panel("", lines)],
    )
    return StudyContent(
        "From all classes to one",
        f"{settings.layers} layers below the classifier, {settings.dim} dimensions, {settings.samples} samples; a rare "
        f"class has {settings.imbalance:g} times the samples of a frequent one.",
        {"settings": settings.model_dump(mode="json"), "steps": steps},
        ["frequent classes", *RANKS.values(), "grown", "loss"],
        rows,
        [picture],
        {key: np.array([step["singular_values"][key] for step in steps]) for key in RANKS},
    )


def _train(settings: ClassSweep, frequent: int, reference: Array, progress: ProgressCallback) -> dict[str, Any]:
    sizes = class_sizes(settings.samples, settings.classes, frequent, settings.imbalance)
    x, y = draw_data(settings, sizes, "training")
    start = draw_start(settings, x, y)
    *_, end = integrate(start, x, y, [0.0, settings.time / settings.samples], progress=progress)
    before, after = spectrum(product(start[:-1])), spectrum(product(end[:-1]))
    spectra = {
        "gradient": spectrum(class_gradient_matrix(start, x, y)),
        "product": after,
        "covariance": spectrum(representation_covariance(end, reference)),
    }
    return {
        "frequent": frequent,
        "class_sizes": sizes.tolist(),
        "effective_rank": {key: effective_rank(torch.from_numpy(values)) for key, values in spectra.items()},
        "grown": int((after > GREW * before).sum()),
        "mean_loss": loss(end, x, y) / settings.samples,
        "singular_values": {key: values.tolist() for key, values in spectra.items()},
    }
