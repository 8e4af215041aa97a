"""Does the theorem hold? Two flows, with balanced and with imbalanced classes, measured over their whole length."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feddecorr.paper.theory.measurement import Measured, measure, relative_error, total_error
from feddecorr.paper.theory.network import Array, ProgressCallback, integrate, no_progress, partial_progress
from feddecorr.paper.theory.start import class_sizes, draw_data, draw_start
from feddecorr.paper.theory_settings import Flow, Network
from feddecorr.report.picture import Panel, Picture, Series, StudyContent, fan, shades

AT_REST = 1e-6
"""Growth below this share of the fastest at the same time counts as rest."""

AT_REST_BY_DIFFERENCES = 1e-4
"""The same for differences, which rounding makes coarser."""

GREW = 2.0
"""A singular value that has grown is this many times as large as at the start."""

TIME = "time N·t"

ERROR_LINES = {
    "theorem": "Theorem 1",
    "theorem_by_differences": "by differences",
    "theorem_in_total": "in total",
    "lemma2": "Lemma 2",
    "theorem_as_printed": "with G as printed",
}


def study_flow(settings: Flow, progress: ProgressCallback = no_progress) -> StudyContent:
    """Integrate and measure the flow for balanced and for imbalanced classes."""
    shares = {"balanced": 1.0, "imbalanced": settings.imbalance}
    sizes = {
        name: class_sizes(settings.samples, settings.classes, settings.frequent_classes, share)
        for name, share in shares.items()
    }
    parts = {"balanced": partial_progress(progress, 0, 0.5), "imbalanced": partial_progress(progress, 0.5, 1)}
    found = {name: run_flow(settings, size, parts[name]) for name, size in sizes.items()}
    flows = {
        name: summarize(measured, settings) | {"class_sizes": sizes[name].tolist()} for name, measured in found.items()
    }
    largest = max(each["largest_relative_error"] for each in flows.values())
    headings = [
        "flow",
        "grown",
        "theorem's error",
        "in total",
        "Lemma 2's error",
        "alignment",
        "drift of M",
        "of balance",
    ]
    rows = [
        [
            name,
            f"{each['grown']} of {settings.dim}",
            f"{each['largest_relative_error']:.1e}",
            f"{each['total_error']['start']:.1e} to {each['total_error']['end']:.1e}",
            f"{each['errors']['lemma2']:.1e}",
            f"{each['alignment']['start']:.3f} to {each['alignment']['end']:.3f}",
            f"{each['drift_of_constants']:.1e}",
            f"{each['imbalance_of_layers']:.1e}",
        ]
        for name, each in flows.items()
    ]
    arrays = {f"{name}_{key}": value for name, measured in found.items() for key, value in asdict(measured).items()}
    return StudyContent(
        "Gradient flow of a deep linear network",
        f"{settings.layers} layers below the classifier, {settings.dim} dimensions, {settings.classes} classes, "
        f"{settings.samples} samples, start: {settings.start}. Largest relative error of Theorem 1: {largest:.1e}.",
        {"settings": settings.model_dump(mode="json"), "largest_relative_error": largest, "flows": flows},
        headings,
        rows,
        _pictures(found, settings),
        arrays,
    )


def run_flow(settings: Network, sizes: NDArray[np.int64], progress: ProgressCallback = no_progress) -> Measured:
    """Draw data and start, integrate, and measure."""
    x, y = draw_data(settings, sizes, "training")
    times = np.linspace(0, settings.time / settings.samples, settings.points)
    return measure(integrate(draw_start(settings, x, y), x, y, times, progress=progress), times, x, y)


def summarize(measured: Measured, settings: Network) -> dict[str, Any]:
    """Return the figures of one flow."""
    errors = {name: float(error.max()) for name, error in _errors(measured).items()}
    start, end = np.abs(measured.values[0]), np.abs(measured.values[-1])
    totals = total_error(measured.theorem, measured.growth)
    printed = total_error(measured.printed, measured.growth)
    alignment, of_growth = _alignment(measured), _alignment_of_growth(measured)
    return {
        "largest_relative_error": max(errors["theorem"], errors["theorem_by_differences"]),
        "errors": errors,
        "total_error": {"start": float(totals[0]), "end": float(totals[-1])},
        "total_error_as_printed": {"start": float(printed[0]), "end": float(printed[-1])},
        "alignment": {"start": float(alignment[0]), "smallest": float(alignment.min()), "end": float(alignment[-1])},
        "alignment_of_growth": {"start": float(of_growth[0]), "end": float(of_growth[-1])},
        "constants": measured.constants[0].tolist(),
        "drift_of_constants": float(np.abs(measured.constants - measured.constants[0]).max()),
        "imbalance_of_layers": float(measured.imbalance_of_layers.max()),
        "grown": int((end > GREW * start).sum()),
        "singular_values": {"start": start.tolist(), "end": end.tolist()},
        "mean_loss": {"start": measured.losses[0] / settings.samples, "end": measured.losses[-1] / settings.samples},
    }


def _errors(measured: Measured) -> dict[str, Array]:
    """Return relative errors by time, of the worst singular value at each."""
    growth, difference = measured.growth, measured.difference
    return {
        "theorem": relative_error(measured.theorem, growth, AT_REST).max(1),
        "theorem_by_differences": relative_error(measured.theorem, difference, AT_REST_BY_DIFFERENCES).max(1),
        "lemma2": relative_error(measured.lemma2, growth, AT_REST).max(1),
        "lemma2_by_differences": relative_error(measured.lemma2, difference, AT_REST_BY_DIFFERENCES).max(1),
        "theorem_in_total": total_error(measured.theorem, growth),
        "theorem_as_printed": relative_error(measured.printed, growth, AT_REST).max(1),
    }


def _alignment(measured: Measured) -> Array:
    """Return the mean of |u_kᵀ v_{L+1,k}| over the pairs that there are, by time."""
    return np.asarray(measured.overlaps.sum(1) / (measured.overlaps > 0).sum(1).clip(min=1))


def _alignment_of_growth(measured: Measured) -> Array:
    """Return the mean of |u_kᵀ v_{L+1,k}| weighted by how fast σ_k changes, by time."""
    speeds = np.abs(measured.growth)
    return np.asarray((speeds * measured.overlaps).sum(1) / speeds.sum(1).clip(min=np.finfo(float).tiny))


def _pictures(found: dict[str, Measured], settings: Flow) -> list[Picture]:
    time = {name: settings.samples * measured.times for name, measured in found.items()}
    titles = {name: f"{name} classes" for name in found}
    return [
        Picture(
            "singular-values",
            "Singular values of the product",
            "Each line is a singular value σ_k of Π = W_L … W_1, followed by continuity.",
            (TIME, "σ_k"),
            [Panel(titles[name], fan(time[name], measured.values)) for name, measured in found.items()],
        ),
        Picture(
            "growth",
            "Their growth, measured and predicted",
            "Lines: the measured growth of each singular value per unit of N·t. Points: what Theorem 1 says.",
            (TIME, "growth of σ_k"),
            [Panel(titles[name], _growth(time[name], measured, settings.samples)) for name, measured in found.items()],
        ),
        Picture(
            "gradient",
            "The spectrum of G",
            "Singular values of G = (y − γ)Xᵀ/N. The last one is zero at all times "
            "and not shown: the columns of y − γ sum to zero.",
            (TIME, "singular values of G"),
            [
                Panel(titles[name], fan(time[name], _positive(measured.spectrum_of_g)))
                for name, measured in found.items()
            ],
            logarithmic=True,
        ),
        Picture(
            "grown",
            "How many have grown",
            f"The number of singular values of Π that are at least {GREW:g} times as large as at the start.",
            (TIME, "number"),
            [Panel("", [Series(time[n], _grown(m), name=titles[n]) for n, m in found.items()])],
        ),
        Picture(
            "error",
            "The error of the prediction",
            "The largest relative error over all singular values, against growth by the chain rule or by differences "
            "along the trajectory; in total, the errors of all by the growth of all. As the paper prints it, G lacks "
            "the covariance within classes.",
            (TIME, "relative error"),
            [
                Panel(titles[n], [Series(time[n], _errors(m)[key], name=name) for key, name in ERROR_LINES.items()])
                for n, m in found.items()
            ],
            logarithmic=True,
        ),
        Picture(
            "alignment",
            "How well Assumption 2 holds",
            "The mean of |u_kᵀ v_{L+1,k}| over all pairs, weighted by the growth of σ_k.",
            (TIME, "alignment"),
            [Panel("", [Series(time[n], _alignment_of_growth(m), name=titles[n]) for n, m in found.items()])],
            include=(0.0, 1.0),
        ),
    ]


def _growth(time: Array, measured: Measured, samples: int) -> list[Series]:
    colours = shades(measured.growth.shape[1])
    few = slice(None, None, max(1, len(time) // 15))
    lines = [Series(time, column / samples, colour) for column, colour in zip(measured.growth.T, colours, strict=True)]
    points = [
        Series(time[few], column[few] / samples, colour, points=True)
        for column, colour in zip(measured.theorem.T, colours, strict=True)
    ]
    return [*lines, *points]


def _grown(measured: Measured) -> Array:
    return np.asarray((np.abs(measured.values) > GREW * np.abs(measured.values[0])).sum(1), dtype=float)


def _positive(spectrum: Array) -> Array:
    """Leave out what is zero but for rounding, which a logarithm would show."""
    return np.asarray(np.where(spectrum > 1e-12 * spectrum.max(), spectrum, 0.0))
