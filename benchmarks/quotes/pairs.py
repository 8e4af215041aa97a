"""The recorded runs on real images, without and with FedDecorr."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from statistics import fmean

from benchmarks.quotes.records import ROOT, table
from feddecorr.paper.claims.evidence import PairedRuns, paired_runs, runs_of, sample
from feddecorr.paper.claims.gains import papers_gain
from feddecorr.paper.grid import settings_of
from feddecorr.paper.scales import find_scale
from feddecorr.results.curves import local_values
from feddecorr.results.groups import context
from feddecorr.results.names import shown
from feddecorr.results.sample import Sample
from feddecorr.results.study import Labels
from feddecorr.results.summary import Summary, read_summaries

ALPHA = ["partition.alpha"]


@cache
def summaries() -> list[Summary]:
    """Return all recorded runs on real images."""
    return read_summaries([ROOT / f"results/{name}.jsonl" for name in ("small", "many", "mobilenetv2")])


@cache
def main_runs(scale: str) -> list[Summary]:
    """Return the runs of the main comparison: FedAvg without and with FedDecorr, at the paper's strength."""
    labels: Labels = {"data": "cifar10", "method": "fedavg", "alpha": 0.1}
    arms = [settings_of(find_scale(scale), {**labels, "regularizer": name}) for name in ("none", "feddecorr")]
    one = summaries()[0]
    alike = {
        context(replace(one, experiment=experiment.to_dict(), options=options.to_dict()), ALPHA)
        for experiment, options in arms
    }
    return [run for run in summaries() if context(run, ALPHA) in alike]


def by_alpha(scale: str) -> Callable[[], str]:
    """Return what writes accuracy and ranks of FedAvg without and with FedDecorr for each alpha that both have."""

    def write() -> str:
        found = paired_runs(runs_of(main_runs(scale)))
        rows = [_compare(pair) for pair in sorted(found, key=lambda pair: pair.run.alpha or 0.0)]
        columns = [column for column in rows[0] if all(column in row for row in rows)]
        return table(columns, [[row[column] for column in columns] for row in rows])

    return write


def beside_the_paper() -> str:
    """Return what FedDecorr adds at each alpha, in the paper and here."""
    rows = []
    for pair in sorted(paired_runs(runs_of(main_runs("many"))), key=lambda pair: pair.run.alpha or 0.0):
        alpha = "inf" if pair.run.alpha in (None, math.inf) else pair.run.alpha or 0.0
        theirs = papers_gain("main", "cifar10", alpha=alpha)
        if theirs is None:
            continue
        found, gains = _compare(pair), pair.gains()
        names = ("transient", "last")
        ours = [f"{100 * gains[name].mean:+.1f} ± {100 * gains[name].half_width:.1f}" for name in names]
        rows.append([shown("alpha", alpha), f"{100 * theirs:+.1f}", *ours, found["effective rank"]])
    head = ["α", "the paper", "here, learning rate high", "here, last round", "effective rank here"]
    return table(head, rows)


def papers_network() -> str:
    """Return the results of the paper's own network, without and with FedDecorr."""
    found = read_summaries([ROOT / "results/mobilenetv2.jsonl"])
    rows = [
        [
            ", ".join(run.experiment["regularizers"]) or "none",
            str(len(run.rounds)),
            *(f"{100 * (run.statistic(name) or math.nan):.1f}" for name in ("last", "best")),
            f"{run.statistic('last', 'effective_rank') or math.nan:.1f}",
            f"{fmean(local_values(run, 'effective_rank')):.1f}",
        ]
        for run in sorted(found, key=lambda run: len(run.experiment["regularizers"]))
    ]
    accuracies = ["accuracy (%), last round", "best round"]
    return table(["regularizer", "rounds", *accuracies, "effective rank", "of local models"], rows)


def _compare(pair: PairedRuns) -> dict[str, str]:
    arms = (pair.without, pair.decorrelated)
    both = pair.without.keys() & pair.decorrelated.keys()
    paired = [{seed: arm[seed] for seed in both} for arm in arms]

    def change(of: Callable[[Summary], float | None], factor: float = 1.0) -> str:
        return arrow([sample(arm, of) for arm in paired], factor)

    gains = pair.gains()
    have_local = all(run.summary.local_models for arm in paired for run in arm.values())
    local = {"of local models": change(lambda run: fmean(local_values(run, "effective_rank")))} if have_local else {}
    return {
        "alpha": "inf" if pair.run.alpha == math.inf else f"{pair.run.alpha:g}",
        "seeds": str(len(both)),
        "accuracy (%)": change(lambda run: run.statistic("last"), factor=100),
        "gain: last round": interval(gains["last"]),
        "transient": interval(gains["transient"]),
        "last ten": interval(gains["last_ten"]),
        "best": interval(gains["best"]),
        "effective rank": change(lambda run: run.statistic("last", "effective_rank")),
        **local,
    }


def arrow(arms: Iterable[Sample], factor: float = 1.0) -> str:
    """Return the means of two arms, from the one to the other."""
    return " → ".join(f"{arm.times(factor).mean:.1f}" for arm in arms)


def interval(gain: Sample) -> str:
    """Return a gain in percentage points, with its interval if there are several seeds."""
    points = gain.times(100)
    ends = f" [{points.low:+.1f}, {points.high:+.1f}]" if len(points) > 1 else ""
    return f"{points.mean:+.1f}{ends}"
