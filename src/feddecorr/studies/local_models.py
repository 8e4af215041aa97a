"""What a run's record tells of the clients' models, before they were averaged."""

from __future__ import annotations

import math
from statistics import fmean

from feddecorr.report.figures import logarithms
from feddecorr.studies.cells import Cell
from feddecorr.studies.sample import Sample
from feddecorr.studies.summary import Summary


def local_values(summary: Summary, measure: str) -> list[float]:
    """Return a measure of each client's model; nothing if they were not looked at."""
    return [float(found[measure]) for found in summary.local_models.values()]


def local_ranks(cell: Cell) -> Sample:
    """Return the mean effective rank of the local models, by seed."""
    found = {seed: local_values(run, "effective_rank") for seed, run in cell.runs.items()}
    return Sample({seed: fmean(values) for seed, values in found.items() if values})


def local_spectra(summary: Summary) -> dict[str, list[float]]:
    """Return the logarithms of the singular values of each client's model, by client in the order of their ids."""
    clients = sorted(summary.local_models, key=int)
    return {client: logarithms(summary.local_models[client]["singular_values"]) for client in clients}


def averaging_effect(summary: Summary) -> float | None:
    """Return log(rank of the average) − mean of log(rank of a client's model), in the last evaluated round."""
    local, whole = local_values(summary, "effective_rank"), summary.statistic("last", "effective_rank")
    if not local or whole is None or min(*local, whole) <= 0:
        return None
    return math.log(whole) - fmean(map(math.log, local))
