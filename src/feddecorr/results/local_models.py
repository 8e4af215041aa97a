"""What a run's record tells of the clients' models, before they were averaged."""

from __future__ import annotations

from statistics import fmean

from feddecorr.collapse.averaging import averaging_effect, geometric_mean
from feddecorr.collapse.spectrum import logarithms
from feddecorr.results.cells import Cell
from feddecorr.results.sample import Sample
from feddecorr.results.summary import Summary


def local_values(summary: Summary, measure: str) -> list[float]:
    """Return a measure of each client's model; nothing if they were not looked at."""
    return [float(found[measure]) for found in summary.local_models.values()]


def local_ranks(cell: Cell) -> Sample:
    """Return the mean effective rank of the local models, by seed."""
    found = {seed: local_values(run, "effective_rank") for seed, run in cell.runs.items()}
    return Sample({seed: fmean(values) for seed, values in found.items() if values})


def typical_local_ranks(cell: Cell) -> Sample:
    """Return the geometric mean of the local models' effective ranks, by seed: averaging is compared with it."""
    found = {seed: local_values(run, "effective_rank") for seed, run in cell.runs.items()}
    return Sample({seed: geometric_mean(values) for seed, values in found.items() if values})


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
