"""Claims about accuracy: when FedDecorr helps, on which methods, and how soon."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from feddecorr.paper.claims.claim import PERCENT, POINTS, ClaimPart, Trial
from feddecorr.paper.claims.evidence import PRIMARY, PairedRuns, Run, group_pairs, paired_runs
from feddecorr.paper.claims.rules import POINT, TENTH, increases, stays_within
from feddecorr.paper.values import published
from feddecorr.results.sample import Sample, mean_of
from feddecorr.results.study import Label
from feddecorr.results.summary import Summary

STRONG = (0.05, 0.1)
WEAK = 0.5
NOTHING = Sample({})
ROUNDING = 1e-9


def gain_part(says: str, pair: PairedRuns | None, paper: float | None = None) -> ClaimPart:
    """Return that FedDecorr improves accuracy; nothing is measured where there is no pair."""
    gains = pair.gains() if pair else {}
    primary = gains.get(PRIMARY, NOTHING)
    return ClaimPart(says, primary, increases(POINT), POINTS, others(gains), paper, tested=True, pair=pair)


def others(gains: dict[str, Sample]) -> dict[str, Sample]:
    """Return the statistics that decide nothing."""
    return {name: found for name, found in gains.items() if name != PRIMARY}


def papers_gain(table: str, data: str, *, regularizer: str = "feddecorr", **labels: Label) -> float | None:
    """Return what a regularizer adds in a table of the paper, if it has that row for the data set."""
    asked = {"data": data, "method": "fedavg", **labels}
    without, found = (published(table, {**asked, "regularizer": name}) for name in ("none", regularizer))
    return (found[0].mean - without[0].mean) / 100 if without and found else None


def by_alpha(found: Iterable[PairedRuns]) -> dict[float, PairedRuns]:
    """Return pairs by their split's alpha."""
    return {pair.run.alpha: pair for pair in found if pair.run.alpha is not None}


def heterogeneity(runs: Sequence[Run]) -> list[Trial]:
    """4: FedDecorr improves FedAvg at alpha 0.05 and 0.1, by more than at 0.5."""
    trials = []
    for found in group_pairs(paired_runs(runs), ["partition.alpha"]):
        known = by_alpha(found)
        if known.keys() & set(STRONG):
            data = str(found[0].run.settings["data.name"])
            parts = [
                gain_part(f"gain at alpha {alpha}", known.get(alpha), papers_gain("main", data, alpha=alpha))
                for alpha in STRONG
            ]
            trials.append(pair_trial([*parts, more_than_weak("", known, STRONG)], found, ["partition.alpha"]))
    return trials


def more_than_weak(name: str, known: dict[float, PairedRuns], strong: Sequence[float]) -> ClaimPart:
    """Return that the mean gain under strong heterogeneity is larger than that at alpha 0.5."""
    says = f"{name}gain at alpha {' and '.join(map(str, strong))} beyond that at {WEAK}"
    differences: dict[str, Sample] = {}
    if all(alpha in known for alpha in (*strong, WEAK)):
        gains = [known[alpha].gains() for alpha in strong]
        weak = known[WEAK].gains()
        differences = {
            statistic: mean_of(gain[statistic] for gain in gains).minus(weak[statistic]) for statistic in weak
        }
    primary = differences.get(PRIMARY, NOTHING)
    return ClaimPart(says, primary, increases(POINT), POINTS, others(differences), tested=True)


def other_methods(runs: Sequence[Run]) -> list[Trial]:
    """5: the same on FedProx, FedAvgM and MOON; at 0.05 and 0.1 as far as they are recorded."""
    varied = ["method", "partition.alpha", "model.projection"]
    names = ("fedprox", "fedavgm", "moon")
    trials = []
    for found in group_pairs([pair for name in names for pair in paired_runs(runs, name)], varied):
        data = str(found[0].run.settings["data.name"])
        parts: list[ClaimPart] = []
        for name in names:
            known = by_alpha(pair for pair in found if pair.run.method == name)
            strong = [alpha for alpha in STRONG if alpha in known]
            parts += [
                gain_part(
                    f"{name}: gain at alpha {alpha}",
                    known[alpha],
                    papers_gain("main", data, method=name, alpha=alpha),
                )
                for alpha in strong
            ]
            if not strong:
                parts.append(gain_part(f"{name}: gain at alpha 0.05 or 0.1", None))
            elif WEAK in known:
                parts.append(more_than_weak(f"{name}: ", known, strong))
        trials.append(pair_trial(parts, found, varied))
    return trials


def homogeneous(runs: Sequence[Run]) -> list[Trial]:
    """6: at alpha = inf it is on par."""
    trials = []
    for pair in paired_runs(runs):
        if pair.run.alpha == math.inf:
            gains = pair.gains()
            paper = papers_gain("main", str(pair.run.settings["data.name"]), alpha="inf")
            part = ClaimPart(
                "gain at alpha inf", gains[PRIMARY], stays_within(POINT), POINTS, others(gains), paper, pair=pair
            )
            trials.append(pair_trial([part], [pair]))
    return trials


def speed(runs: Sequence[Run]) -> list[Trial]:
    """13: fewer rounds to a given accuracy."""
    trials = []
    for found in group_pairs(paired_runs(runs), ["partition.alpha"]):
        known = by_alpha(found)
        parts = [
            ClaimPart(
                f"rounds without beyond rounds with, at alpha {alpha}",
                saved_rounds(known[alpha]),
                increases(TENTH),
                PERCENT,
            )
            for alpha in STRONG
            if alpha in known
        ]
        if parts:
            trials.append(pair_trial(parts, found, ["partition.alpha"]))
    return trials


def saved_rounds(pair: PairedRuns) -> Sample:
    """Return log(rounds without / rounds with) until both have reached what the weaker of them has in the end."""
    planned = pair.difference(accuracy).declared
    found = {}
    for seed in sorted(pair.without.keys() & pair.decorrelated.keys()):
        arms = [pair.without[seed].summary, pair.decorrelated[seed].summary]
        ends = [accuracy(summary) for summary in arms]
        if None not in ends:
            goal = min(end for end in ends if end is not None)
            before, after = (rounds_until(summary, goal) for summary in arms)
            found[seed] = math.log(before / after)
    return Sample(found, planned)


def rounds_until(summary: Summary, goal: float) -> int:
    """Return the first evaluated round with that accuracy; the last one has it."""
    evaluated = [line for line in summary.rounds if line["model"]]
    return next(int(line["round"]) for line in evaluated if line["model"]["accuracy"] >= goal - ROUNDING)


def accuracy(summary: Summary) -> float | None:
    """Return the accuracy by the statistic that decides."""
    return summary.statistic(PRIMARY)


def pair_trial(parts: Sequence[ClaimPart], found: Sequence[PairedRuns], varied: Sequence[str] = ()) -> Trial:
    """Return a claim in the setting of these pairs, described without what varies between them."""
    runs = [run for pair in found for run in pair.runs]
    options = ", ".join(f"{key} {value}" for key, value in found[0].run.regularizers["feddecorr"].items())
    return Trial(f"{found[0].run.describe(varied)}, {options}", parts, runs, found[0].is_papers)
