"""The recorded runs on real images, without and with FedDecorr."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from statistics import fmean

from benchmarks.quotes.records import ROOT, table
from feddecorr.studies.claims.duels import Duel, duels, runs_of, sample
from feddecorr.studies.contexts import context
from feddecorr.studies.grid import experiment
from feddecorr.studies.local_models import local_values
from feddecorr.studies.sample import Sample
from feddecorr.studies.scales import SMALL
from feddecorr.studies.summary import Summary, read_summaries

ALPHA = ["partition.alpha"]


@cache
def summaries() -> list[Summary]:
    """Return all recorded runs on real images."""
    return read_summaries([ROOT / "results/small.jsonl"])


@cache
def main_runs() -> list[Summary]:
    """Return the runs of the main comparison: FedAvg without and with FedDecorr, at the paper's strength."""
    arms = [
        experiment(SMALL, {"data": "cifar10", "method": "fedavg", "regularizer": name, "alpha": 0.1}).to_dict()
        for name in ("none", "feddecorr")
    ]
    alike = {context(replace(run, experiment=arm), ALPHA) for run in summaries()[:1] for arm in arms}
    return [run for run in summaries() if context(run, ALPHA) in alike]


def by_alpha() -> str:
    """Return accuracy and ranks of FedAvg without and with FedDecorr for each alpha, where both arms are recorded."""
    found = duels(runs_of(main_runs()))
    rows = [_compare(duel) for duel in sorted(found, key=lambda duel: duel.run.alpha or 0.0)]
    head = ("alpha", "seeds", "accuracy (%)", "gain: mean of the last ten", "last round", "best round")
    return table((*head, "effective rank", "of local models"), rows)


def _compare(duel: Duel) -> list[str]:
    arms = (duel.without, duel.beside)
    both = duel.without.keys() & duel.beside.keys()
    pairs = [{seed: arm[seed] for seed in both} for arm in arms]

    def change(of: Callable[[Summary], float | None], digits: int = 1, factor: float = 1.0) -> str:
        return " → ".join(f"{sample(arm, of).times(factor).mean:.{digits}f}" for arm in pairs)

    gains = duel.gains()
    alpha = "inf" if duel.run.alpha == math.inf else f"{duel.run.alpha:g}"
    return [
        alpha,
        str(len(both)),
        change(lambda run: run.statistic("last_ten"), factor=100),
        *(_interval(gains[name]) for name in ("last_ten", "last", "best")),
        change(lambda run: run.statistic("last_ten", "effective_rank")),
        change(lambda run: fmean(local_values(run, "effective_rank"))),
    ]


def _interval(gain: Sample) -> str:
    points = gain.times(100)
    ends = f" [{points.low:+.1f}, {points.high:+.1f}]" if len(points) > 1 else ""
    return f"{points.mean:+.1f}{ends}"
