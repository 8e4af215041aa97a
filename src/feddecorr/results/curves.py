"""Curves of single runs, and what several seeds make of them: a mean with a band."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean, stdev

from feddecorr.collapse.spectrum import logarithms
from feddecorr.results.local_models import local_spectra
from feddecorr.results.summary import Summary

Band = tuple[Sequence[float], Sequence[float], Sequence[float]]
"""Places along x, the mean at each, and how far the band reaches above and below it."""

Points = dict[float, float]
"""A curve of one run: y by x."""

Curve = Callable[[Summary], Points]


def per_round(measure: str, factor: float = 1.0) -> Curve:
    """Return how to read a measure of the global model, round by round."""

    def curve(run: Summary) -> Points:
        found = {line["round"]: line["model"].get(measure) for line in run.rounds if line["model"]}
        return {number: factor * value for number, value in found.items() if value is not None}

    return curve


def spectrum(run: Summary) -> Points:
    """Return the logarithms of the global model's singular values, by their index."""
    return by_index(logarithms(run.spectrum or []))


def first_client_spectrum(run: Summary) -> Points:
    """Return those of the first client's model."""
    return by_index(next(iter(local_spectra(run).values()), []))


def mean_client_spectrum(run: Summary) -> Points:
    """Return the means over all clients' models."""
    tables = list(local_spectra(run).values())
    return by_index([fmean(values) for values in zip(*tables, strict=True)])


def by_index(values: Sequence[float]) -> Points:
    """Return values by their place, from 1."""
    return {float(place): value for place, value in enumerate(values, start=1)}


def band(curves: Sequence[Points]) -> Band:
    """Return the mean and the deviation of several curves, at the places that all of them have."""
    curves = [curve for curve in curves if curve]
    places = sorted(set.intersection(*(set(curve) for curve in curves))) if curves else []
    columns = [[curve[place] for curve in curves] for place in places]
    return places, [fmean(column) for column in columns], [spread(column) for column in columns]


def spread(values: Sequence[float]) -> float:
    """Return the standard deviation between seeds; nothing for one."""
    return stdev(values) if len(values) > 1 else 0.0
