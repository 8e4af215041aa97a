"""Claims about dimensions: what lowers the rank and raises the tail of the spectrum, and whether the loss is stable."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import fmean

from feddecorr.collapse.spectrum import logarithms
from feddecorr.paper.claims.claim import HALF, PERCENT, TENTH, ClaimPart, Trial, increases, stays_below
from feddecorr.paper.claims.evidence import PRIMARY, Run, group, group_pairs, paired_runs, sample
from feddecorr.paper.claims.gains import by_alpha, pair_trial
from feddecorr.results.curves import change_by_averaging, local_spectra, local_values
from feddecorr.results.summary import Summary

STRONGEST = (0.01, 0.05)
TERM = "feddecorr"

Number = Callable[[Summary], float | None]


def global_rank(summary: Summary) -> float | None:
    """Return the logarithm of the global model's effective rank."""
    rank = summary.statistic(PRIMARY, "effective_rank")
    return math.log(rank) if rank else None


def global_significant(summary: Summary) -> float | None:
    """Return the logarithm of one plus the number of significant singular values of the global model."""
    count = summary.statistic(PRIMARY, "significant_singular_values")
    return None if count is None else math.log1p(count)


def local_rank(summary: Summary) -> float | None:
    """Return the mean logarithm of the effective ranks of the clients' models."""
    values = local_values(summary, "effective_rank")
    return fmean(map(math.log, values)) if values and min(values) > 0 else None


def local_significant(summary: Summary) -> float | None:
    """Return the mean logarithm of one plus the number of significant singular values of the clients' models."""
    values = local_values(summary, "significant_singular_values")
    return fmean(map(math.log1p, values)) if values else None


def rank_of_global_models(runs: Sequence[Run]) -> Iterator[Trial]:
    """1: smaller alpha, lower effective rank and fewer significant singular values of the global model."""
    return _by_heterogeneity(runs, {"effective rank": global_rank, "1 + significant values": global_significant})


def rank_of_local_models(runs: Sequence[Run]) -> Iterator[Trial]:
    """2: the same for local models."""
    numbers = {"effective rank": local_rank, "1 + significant values": local_significant}
    return _by_heterogeneity(_with_local_models(runs), numbers)


def _with_local_models(runs: Sequence[Run]) -> list[Run]:
    """Return the runs whose clients' models are known, and differ from the global one."""
    return [run for run in runs if run.summary.local_models and run.summary.trains_to_the_end]


def _by_heterogeneity(runs: Sequence[Run], numbers: Mapping[str, Number]) -> Iterator[Trial]:
    """Return that numbers are larger on homogeneous data than at any alpha, and at a large alpha than at a small."""
    plain = [run for run in runs if run.method == "fedavg" and not run.regularizers and run.alpha is not None]
    for equal in group(plain, ["partition.alpha"]):
        *finite, largest = sorted({run.alpha for run in equal if run.alpha is not None})
        if finite and largest == math.inf:
            compared = [(alpha, math.inf) for alpha in finite]
            compared += [(finite[0], finite[-1])] if len(finite) > 1 else []
            parts = [_larger(name, of, equal, ends) for name, of in numbers.items() for ends in compared]
            yield Trial(equal[0].describe(["partition.alpha"]), parts, equal)


def _larger(name: str, of: Number, runs: Sequence[Run], alphas: tuple[float, float]) -> ClaimPart:
    """Return that a number is larger at the second alpha than at the first."""
    small, large = (sample({run.seed: run for run in runs if run.alpha == alpha}, of) for alpha in alphas)
    says = f"{name} at alpha {alphas[1]:g} beyond that at {alphas[0]:g}"
    return ClaimPart(says, large.minus(small), increases(TENTH), PERCENT)


def global_tail(summary: Summary) -> float | None:
    """Return the mean logarithm of the second half of the drawn singular values of the global model."""
    return _tail(logarithms(summary.spectrum)) if summary.spectrum else None


def local_tail(summary: Summary) -> float | None:
    """Return the same of the clients' models, averaged; nothing where they are the global model."""
    spectra = local_spectra(summary).values()
    return fmean(map(_tail, spectra)) if spectra and summary.trains_to_the_end else None


def _tail(logs: Sequence[float]) -> float:
    return fmean(logs[len(logs) // 2 :])


def tail_of_spectra(runs: Sequence[Run]) -> Iterator[Trial]:
    """3: FedDecorr raises the tail of the spectrum, local and global, at alpha 0.01 and 0.05 where recorded."""
    for found in group_pairs(paired_runs(runs), ["partition.alpha"]):
        known = {alpha: pair for alpha, pair in by_alpha(found).items() if alpha in STRONGEST}
        parts = [
            ClaimPart(f"rise of the {name} tail at alpha {alpha}", pair.pair.difference(of), increases(TENTH), PERCENT)
            for alpha, pair in sorted(known.items())
            for name, of in (("global", global_tail), ("local", local_tail))
        ]
        if parts:
            yield pair_trial(parts, list(known.values()), ["partition.alpha"])


def averaging(runs: Sequence[Run]) -> Iterator[Trial]:
    """F1: the average has a lower rank than the averaged models."""
    plain = [run for run in _with_local_models(runs) if run.method == "fedavg" and not run.regularizers]
    for equal in group([run for run in plain if run.alpha is not None], ["partition.alpha"]):
        alphas = sorted({run.alpha for run in equal if run.alpha is not None})
        parts = [_lowered(alpha, {run.seed: run for run in equal if run.alpha == alpha}) for alpha in alphas]
        yield Trial(equal[0].describe(["partition.alpha"]), parts, equal)


def _lowered(alpha: float, runs: dict[int, Run]) -> ClaimPart:
    lowered = sample(runs, change_by_averaging).times(-1)
    says = f"rank of the clients' models beyond that of their average, at alpha {alpha:g}"
    return ClaimPart(says, lowered, increases(TENTH), PERCENT)


def stability(runs: Sequence[Run]) -> Iterator[Trial]:
    """15: within local training the FedDecorr loss of no client grows, nor jumps from one epoch to the next."""
    held = [run for run in runs if any(TERM in terms for terms in run.summary.local_terms.values())]
    for equal in group(held):
        known = {run.seed: run for run in equal}
        parts = [
            ClaimPart("growth of the loss of the worst client", sample(known, _growth), stays_below(TENTH), PERCENT),
            ClaimPart(
                "largest rise of any client from one epoch to the next",
                sample(known, _jump),
                stays_below(HALF),
                PERCENT,
            ),
        ]
        yield Trial(equal[0].describe(), parts, equal)


def _curves(summary: Summary) -> list[list[float]]:
    found = [terms[TERM] for terms in summary.local_terms.values() if TERM in terms]
    return [values for values in found if len(values) > 1 and min(values) > 0]


def _growth(summary: Summary) -> float | None:
    return max((math.log(values[-1] / values[0]) for values in _curves(summary)), default=None)


def _jump(summary: Summary) -> float | None:
    steps = (math.log(after / before) for values in _curves(summary) for before, after in pairwise(values))
    return max(steps, default=None)
