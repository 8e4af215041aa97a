"""The same flow without and with the FedDecorr term: the small singular values now grow."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from feddecorr.collapse.spectrum import effective_rank
from feddecorr.paper.theory.measurement import relative_error
from feddecorr.paper.theory.network import (
    Array,
    FlowTerm,
    ProgressCallback,
    Weights,
    decorrelation_term,
    integrate,
    loss,
    no_progress,
    partial_progress,
    product,
    product_gradient,
    representation_covariance,
)
from feddecorr.paper.theory.singular_values import (
    decompose,
    follow,
    growth_by_lemma1,
    growth_by_lemma2,
    spectrum,
    velocity_by_layers,
)
from feddecorr.paper.theory.start import class_sizes, draw_data, draw_start
from feddecorr.paper.theory.studies.class_sweep import REFERENCE_PER_CLASS
from feddecorr.paper.theory.studies.flow import AT_REST, TIME
from feddecorr.paper.theory_settings import Decorrelate
from feddecorr.report.picture import Panel, Picture, Series, StudyContent, fan

PLAIN = 0.05
"""The share of the work that the flow without the term is, roughly: with it, the flow is stiff and a step is dear."""


def study_decorrelate(settings: Decorrelate, progress: ProgressCallback = no_progress) -> StudyContent:
    """Integrate the flow for imbalanced classes without and with the term."""
    sizes = class_sizes(settings.samples, settings.classes, settings.frequent_classes, settings.imbalance)
    x, y = draw_data(settings, sizes, "training")
    reference, _ = draw_data(settings, np.full(settings.classes, REFERENCE_PER_CLASS), "reference")
    start = draw_start(settings, x, y)
    times = np.linspace(0, settings.time / settings.samples, settings.points)
    terms: dict[str, FlowTerm | None] = {
        "without": None,
        "with": decorrelation_term(settings.beta, settings.normalization),
    }
    parts = {"without": partial_progress(progress, 0, PLAIN), "with": partial_progress(progress, PLAIN, 1)}
    values: dict[str, Array] = {}
    spectra: dict[str, Array] = {}
    flows: dict[str, dict[str, Any]] = {}
    for name, term in terms.items():
        trajectory = list(integrate(start, x, y, times, term, parts[name]))
        values[name], error = _follow(trajectory, x, y, term)
        spectra[name] = spectrum(representation_covariance(trajectory[-1], reference))
        flows[name] = {
            "singular_values": {"start": values[name][0].tolist(), "end": values[name][-1].tolist()},
            "smallest_singular_value": {"start": values[name][0].min(), "end": values[name][-1].min()},
            "covariance": spectra[name].tolist(),
            "effective_rank": {
                "product": effective_rank(torch.from_numpy(np.abs(values[name][-1]))),
                "covariance": effective_rank(torch.from_numpy(spectra[name])),
            },
            "mean_loss": loss(trajectory[-1], x, y) / settings.samples,
            "lemma2_error": error,
        }
    rows = [
        [
            f"{name} the term",
            f"{each['smallest_singular_value']['start']:.3f} to {each['smallest_singular_value']['end']:.3f}",
            f"{each['effective_rank']['product']:.2f}",
            f"{each['effective_rank']['covariance']:.2f}",
            f"{each['mean_loss']:.4f}",
            f"{each['lemma2_error']:.1e}",
        ]
        for name, each in flows.items()
    ]
    return StudyContent(
        "The flow without and with FedDecorr",
        f"{settings.layers} layers below the classifier, {settings.dim} dimensions, class sizes "
        f"{', '.join(map(str, sizes))}; β = {settings.beta:g} in the scale '{settings.normalization}'.",
        {"settings": settings.model_dump(mode="json"), "class_sizes": sizes.tolist(), "flows": flows},
        ["flow", "smallest σ_k", "rank of Π", "rank of Σ", "loss", "Lemma 2's error"],
        rows,
        _pictures(settings.samples * times, values, spectra),
        {"times": times, **{f"values_{name}": table for name, table in values.items()}},
    )


def _follow(trajectory: list[Weights], x: Array, y: Array, term: FlowTerm | None) -> tuple[Array, float]:
    """Return the singular values of Π by time, and the largest relative error of Lemma 2's closed form."""
    rows, predicted, measured = [], [], []
    before = None
    for weights in trajectory:
        gradient = product_gradient(weights, x, y, term)
        velocity = velocity_by_layers(weights[:-1], gradient)
        now = decompose(product(weights[:-1]), velocity)
        now = now if before is None else follow(before, now)
        rows.append(now.values)
        predicted.append(growth_by_lemma2(now, gradient, len(weights) - 1))
        measured.append(growth_by_lemma1(now, velocity))
        before = now
    return np.stack(rows), float(relative_error(np.stack(predicted), np.stack(measured), AT_REST).max())


def _pictures(time: Array, values: dict[str, Array], spectra: dict[str, Array]) -> list[Picture]:
    counts = {name: np.arange(1.0, len(spectrum) + 1) for name, spectrum in spectra.items()}
    return [
        Picture(
            "decorrelate",
            "Singular values of the product",
            "The same data and the same start. Without the term, the directions that the classifier does not see "
            "stay as they are; with it, they grow.",
            (TIME, "σ_k"),
            [Panel(f"{name} FedDecorr", fan(time, table)) for name, table in values.items()],
            logarithmic=True,
        ),
        Picture(
            "covariance",
            "Spectrum of the representations at the end",
            "Singular values of the covariance of the representations of inputs of all classes.",
            ("k", "singular value of Σ"),
            [Panel("", [Series(counts[n], s, name=f"{n} FedDecorr") for n, s in spectra.items()])],
            logarithmic=True,
        ),
    ]
