"""What is read of a run's record: curves, spectra, and the clients' models; and the mean of seeds with its band."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean, stdev

from feddecorr.collapse.averaging import averaging_effect, geometric_mean
from feddecorr.collapse.spectrum import logarithms
from feddecorr.results.groups import Cell, sample_runs
from feddecorr.results.sample import Sample
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


def band(curves: Sequence[Points], *, whole: bool = True) -> Band:
    """Return the mean and the deviation of several curves, at the places that all of them have.

    Without `whole`, at the places that any of them has, over those that have it.
    """
    sets = [set(curve) for curve in curves if curve]
    places = sorted(set.intersection(*sets) if whole else set.union(*sets)) if sets else []
    columns = [[curve[place] for curve in curves if place in curve] for place in places]
    return places, [fmean(column) for column in columns], [spread(column) for column in columns]


def spread(values: Sequence[float]) -> float:
    """Return the standard deviation between seeds; nothing for one."""
    return stdev(values) if len(values) > 1 else 0.0


def local_values(summary: Summary, measure: str) -> list[float]:
    """Return a measure of each client's model; nothing if they were not evaluated."""
    return [float(found[measure]) for found in summary.local_models.values()]


def local_ranks(cell: Cell) -> Sample:
    """Return the mean effective rank of the local models, by seed."""
    return _local_ranks(cell, fmean)


def typical_local_ranks(cell: Cell) -> Sample:
    """Return the geometric mean of the local models' effective ranks, by seed: averaging is compared with it."""
    return _local_ranks(cell, geometric_mean)


def _local_ranks(cell: Cell, mean: Callable[[list[float]], float]) -> Sample:
    def of(run: Summary) -> float | None:
        values = local_values(run, "effective_rank")
        return mean(values) if values else None

    return sample_runs(cell.runs, of)


def seconds_per_round(run: Summary) -> float | None:
    """Return the mean time of a round, without the first, which also starts everything."""
    return fmean(line["seconds"] for line in run.rounds[1:] or run.rounds) if run.rounds else None


def local_spectra(summary: Summary) -> dict[str, list[float]]:
    """Return the logarithms of the singular values of each client's model, by client in the order of their ids."""
    clients = sorted(summary.local_models, key=int)
    return {client: logarithms(summary.local_models[client]["singular_values"]) for client in clients}


def change_by_averaging(summary: Summary) -> float | None:
    """Return what averaging did to the effective rank in the last evaluated round, as `averaging_effect` has it.

    That is of FedAvg and all that averages: there the global model is the average.
    """
    whole = summary.statistic("last", "effective_rank")
    return None if whole is None else averaging_effect(local_values(summary, "effective_rank"), whole)
