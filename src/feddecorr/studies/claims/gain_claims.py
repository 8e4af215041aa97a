"""Claims about accuracy: when FedDecorr helps, on which methods, and how soon."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from feddecorr.studies.claims.claim import PERCENT, POINTS, Part, Trial
from feddecorr.studies.claims.duels import DECIDING, Duel, Run, duels, group_duels
from feddecorr.studies.claims.rules import POINT, TENTH, increases, stays_within
from feddecorr.studies.sample import Sample
from feddecorr.studies.summary import Summary

STRONG = (0.05, 0.1)
WEAK = 0.5
NOTHING = Sample({})
ROUNDING = 1e-9


def gain_part(says: str, duel: Duel | None) -> Part:
    """Return that FedDecorr improves accuracy; nothing is measured where there is no pair."""
    gains = duel.gains() if duel else {}
    others = {name: found for name, found in gains.items() if name != DECIDING}
    return Part(says, gains.get(DECIDING, NOTHING), increases(POINT), POINTS, others)


def by_alpha(found: Iterable[Duel]) -> dict[float, Duel]:
    """Return pairs by their split's alpha."""
    return {duel.run.alpha: duel for duel in found if duel.run.alpha is not None}


def heterogeneity(runs: Sequence[Run]) -> list[Trial]:
    """4: FedDecorr improves FedAvg at alpha 0.05 and 0.1, by more than at 0.5."""
    trials = []
    for found in group_duels(duels(runs), ["partition.alpha"]):
        known = by_alpha(found)
        if known.keys() & set(STRONG):
            parts = [gain_part(f"gain at alpha {alpha}", known.get(alpha)) for alpha in STRONG]
            trials.append(duel_trial([*parts, more_than_weak("", known, STRONG)], found, ["partition.alpha"]))
    return trials


def more_than_weak(name: str, known: dict[float, Duel], strong: Sequence[float]) -> Part:
    """Return that the mean gain under strong heterogeneity is larger than that at alpha 0.5."""
    says = f"{name}gain at alpha {' and '.join(map(str, strong))} beyond that at {WEAK}"
    if not all(alpha in known for alpha in (*strong, WEAK)):
        return Part(says, NOTHING, increases(POINT), POINTS)
    gains = [known[alpha].gains()[DECIDING] for alpha in strong]
    seeds = set.intersection(*(set(gain.values) for gain in gains))
    mean = Sample({seed: sum(gain.values[seed] for gain in gains) / len(gains) for seed in sorted(seeds)})
    return Part(says, mean.minus(known[WEAK].gains()[DECIDING]), increases(POINT), POINTS)


def other_methods(runs: Sequence[Run]) -> list[Trial]:
    """5: the same on FedProx, FedAvgM and MOON; at 0.05 and 0.1 as far as they are recorded."""
    varied = ["method", "partition.alpha", "model.projection"]
    names = ("fedprox", "fedavgm", "moon")
    trials = []
    for found in group_duels([duel for name in names for duel in duels(runs, name)], varied):
        parts: list[Part] = []
        for name in names:
            known = by_alpha(duel for duel in found if duel.run.method == name)
            strong = [alpha for alpha in STRONG if alpha in known]
            parts += [gain_part(f"{name}: gain at alpha {alpha}", known[alpha]) for alpha in strong]
            if not strong:
                parts.append(gain_part(f"{name}: gain at alpha 0.05 or 0.1", None))
            elif WEAK in known:
                parts.append(more_than_weak(f"{name}: ", known, strong))
        trials.append(duel_trial(parts, found, varied))
    return trials


def homogeneous(runs: Sequence[Run]) -> list[Trial]:
    """6: at alpha = inf it is on par."""
    trials = []
    for duel in duels(runs):
        if duel.run.alpha == math.inf:
            gains = duel.gains()
            part = Part("gain at alpha inf", gains.pop(DECIDING), stays_within(POINT), POINTS, gains)
            trials.append(duel_trial([part], [duel]))
    return trials


def speed(runs: Sequence[Run]) -> list[Trial]:
    """13: fewer rounds to a given accuracy."""
    trials = []
    for found in group_duels(duels(runs), ["partition.alpha"]):
        known = by_alpha(found)
        parts = [
            Part(
                f"rounds without beyond rounds with, at alpha {alpha}",
                saved_rounds(known[alpha]),
                increases(TENTH),
                PERCENT,
            )
            for alpha in STRONG
            if alpha in known
        ]
        if parts:
            trials.append(duel_trial(parts, found, ["partition.alpha"]))
    return trials


def saved_rounds(duel: Duel) -> Sample:
    """Return log(rounds without / rounds with) until both have reached what the weaker of them reaches in the end."""
    found = {}
    for seed in sorted(duel.without.keys() & duel.beside.keys()):
        pair = [duel.without[seed].summary, duel.beside[seed].summary]
        ends = [accuracy(summary) for summary in pair]
        if None not in ends:
            goal = min(end for end in ends if end is not None)
            before, after = (rounds_until(summary, goal) for summary in pair)
            found[seed] = math.log(before / after)
    return Sample(found)


def rounds_until(summary: Summary, goal: float) -> int:
    """Return the first evaluated round with that accuracy; some of the last ten has their mean, but for rounding."""
    evaluated = [line for line in summary.rounds if line["model"]]
    return next(int(line["round"]) for line in evaluated if line["model"]["accuracy"] >= goal - ROUNDING)


def accuracy(summary: Summary) -> float | None:
    """Return the accuracy by the statistic that decides."""
    return summary.statistic(DECIDING)


def duel_trial(parts: Sequence[Part], found: Sequence[Duel], varied: Sequence[str] = ()) -> Trial:
    """Return a claim in the setting of these pairs, described without what varies between them."""
    runs = [run for duel in found for run in duel.runs]
    options = ", ".join(f"{key} {value}" for key, value in found[0].run.regularizers["feddecorr"].items())
    return Trial(f"{found[0].run.describe(varied)}, {options}", parts, runs, found[0].is_papers)
