"""Claims about dimensions: what lowers the rank, what raises the tail of the spectrum, and how the loss goes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean

from feddecorr.report.figures import logarithms
from feddecorr.studies.claims.claim import PERCENT, Part, Trial
from feddecorr.studies.claims.duels import DECIDING, Run, change, duels, group, group_duels, sample
from feddecorr.studies.claims.gain_claims import by_alpha, duel_trial
from feddecorr.studies.claims.rules import HALF, TENTH, increases, stays_below
from feddecorr.studies.local_models import change_by_averaging, local_spectra, local_values
from feddecorr.studies.summary import Summary

STRONGEST = (0.01, 0.05)
TERM = "feddecorr"

Number = Callable[[Summary], float | None]


def global_rank(summary: Summary) -> float | None:
    """Return the logarithm of the global model's effective rank."""
    rank = summary.statistic(DECIDING, "effective_rank")
    return math.log(rank) if rank else None


def global_significant(summary: Summary) -> float | None:
    """Return the logarithm of one plus the number of significant singular values of the global model."""
    count = summary.statistic(DECIDING, "significant_singular_values")
    return None if count is None else math.log1p(count)


def local_rank(summary: Summary) -> float | None:
    """Return the mean logarithm of the effective ranks of the clients' models."""
    values = local_values(summary, "effective_rank")
    return fmean(map(math.log, values)) if values and min(values) > 0 else None


def local_significant(summary: Summary) -> float | None:
    """Return the mean logarithm of one plus the number of significant singular values of the clients' models."""
    values = local_values(summary, "significant_singular_values")
    return fmean(map(math.log1p, values)) if values else None


def rank_of_global_models(runs: Sequence[Run]) -> list[Trial]:
    """1: smaller alpha, lower effective rank and fewer significant singular values of the global model."""
    return _by_heterogeneity(runs, {"effective rank": global_rank, "1 + significant values": global_significant})


def rank_of_local_models(runs: Sequence[Run]) -> list[Trial]:
    """2: the same for local models."""
    held = [run for run in runs if run.summary.local_models]
    return _by_heterogeneity(held, {"effective rank": local_rank, "1 + significant values": local_significant})


def _by_heterogeneity(runs: Sequence[Run], numbers: dict[str, Number]) -> list[Trial]:
    trials = []
    plain = [run for run in runs if run.method == "fedavg" and not run.regularizers and run.alpha is not None]
    for equal in group(plain, ["partition.alpha"]):
        alphas = sorted({run.alpha for run in equal if run.alpha is not None})
        if len(alphas) > 1:
            parts = [_rise(name, of, equal, alphas) for name, of in numbers.items()]
            trials.append(Trial(equal[0].describe(["partition.alpha"]), parts, equal))
    return trials


def _rise(name: str, of: Number, runs: Sequence[Run], alphas: Sequence[float]) -> Part:
    """Return that a number rises with alpha, along the order of its values (the largest is infinite)."""
    points = [
        (float(place), sample({run.seed: run for run in runs if run.alpha == alpha}, of))
        for place, alpha in enumerate(alphas)
    ]
    says = f"rise of {name} from alpha {alphas[0]:g} to {alphas[-1]:g}"
    return Part(says, change(points), increases(TENTH), PERCENT)


def global_tail(summary: Summary) -> float | None:
    """Return the mean logarithm of the second half of the drawn singular values of the global model."""
    return _tail(logarithms(summary.spectrum)) if summary.spectrum else None


def local_tail(summary: Summary) -> float | None:
    """Return the same of the clients' models, averaged."""
    spectra = local_spectra(summary).values()
    return fmean(map(_tail, spectra)) if spectra else None


def _tail(logs: Sequence[float]) -> float:
    return fmean(logs[len(logs) // 2 :])


def tail_of_spectra(runs: Sequence[Run]) -> list[Trial]:
    """3: FedDecorr raises the tail of the spectrum, local and global, at alpha 0.01 and 0.05 where recorded."""
    trials = []
    for found in group_duels(duels(runs), ["partition.alpha"]):
        known = {alpha: duel for alpha, duel in by_alpha(found).items() if alpha in STRONGEST}
        parts = [
            Part(f"rise of the {name} tail at alpha {alpha}", duel.difference(of), increases(TENTH), PERCENT)
            for alpha, duel in sorted(known.items())
            for name, of in (("global", global_tail), ("local", local_tail))
        ]
        if parts:
            trials.append(duel_trial(parts, list(known.values()), ["partition.alpha"]))
    return trials


def averaging(runs: Sequence[Run]) -> list[Trial]:
    """18: the average has a lower rank than the models that it is made of."""
    trials = []
    held = [run for run in runs if run.method == "fedavg" and not run.regularizers and run.summary.local_models]
    for equal in group(held):
        lowered = sample({run.seed: run for run in equal}, change_by_averaging).times(-1)
        part = Part("rank of the clients' models beyond that of their average", lowered, increases(TENTH), PERCENT)
        trials.append(Trial(equal[0].describe(), [part], equal))
    return trials


def stability(runs: Sequence[Run]) -> list[Trial]:
    """15: within local training the FedDecorr loss does not grow, nor jump from one epoch to the next."""
    trials = []
    held = [run for run in runs if any(TERM in terms for terms in run.summary.local_terms.values())]
    for equal in group(held):
        known = {run.seed: run for run in equal}
        parts = [
            Part("growth of the loss in local training", sample(known, _growth), stays_below(TENTH), PERCENT),
            Part("largest rise from one epoch to the next", sample(known, _jump), stays_below(HALF), PERCENT),
        ]
        trials.append(Trial(equal[0].describe(), parts, equal))
    return trials


def _curves(summary: Summary) -> list[list[float]]:
    found = [terms[TERM] for terms in summary.local_terms.values() if TERM in terms]
    return [values for values in found if len(values) > 1 and min(values) > 0]


def _growth(summary: Summary) -> float | None:
    curves = _curves(summary)
    return fmean(math.log(values[-1] / values[0]) for values in curves) if curves else None


def _jump(summary: Summary) -> float | None:
    curves = _curves(summary)
    return (
        fmean(max(math.log(after / before) for before, after in pairwise(values)) for values in curves)
        if curves
        else None
    )
