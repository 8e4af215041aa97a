"""Claims about accuracy: when FedDecorr helps, by how much, and what that depends on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from feddecorr.studies.claims.claim import PERCENT, POINTS, Part, Trial
from feddecorr.studies.claims.evidence import DECIDING, Duel, Run, duels, group, group_duels, sample
from feddecorr.studies.claims.evidence import change as fitted_change
from feddecorr.studies.claims.rules import POINT, TENTH, does_not_increase, increases, stays_within
from feddecorr.studies.sample import Sample
from feddecorr.studies.summary import Summary

STRONG = (0.05, 0.1)
WEAK = 0.5
NOTHING = Sample({})


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
            trials.append(_trial([*parts, more_than_weak("", known, STRONG)], found, ["partition.alpha"]))
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
        trials.append(_trial(parts, found, varied))
    return trials


def homogeneous(runs: Sequence[Run]) -> list[Trial]:
    """6: at alpha = inf it is on par."""
    trials = []
    for duel in duels(runs):
        if duel.run.alpha == math.inf:
            gains = duel.gains()
            part = Part("gain at alpha inf", gains.pop(DECIDING), stays_within(POINT), POINTS, gains)
            trials.append(_trial([part], [duel]))
    return trials


def number_of_clients(runs: Sequence[Run]) -> list[Trial]:
    """7: more clients, more gain."""
    varied = ["clients", "participation", "rounds"]
    trials = []
    for found in group_duels(duels(runs), varied):
        table = {float(duel.run.settings["clients"]): duel.gains()[DECIDING] for duel in found}
        if len(table) > 1:
            ends = f"{min(table):.0f} to {max(table):.0f} clients"
            rise = fitted_change({math.log(clients): gains for clients, gains in table.items()})
            trials.append(
                _trial([Part(f"rise of the gain from {ends}", rise, increases(POINT), POINTS)], found, varied)
            )
    return trials


def strength(runs: Sequence[Run]) -> list[Trial]:
    """8: insensitive to beta around 0.1."""
    trials = []
    ours = [run for run in runs if run.method == "fedavg" and set(run.regularizers) == {"feddecorr"}]
    for equal in group(ours, ["regularizers.feddecorr.beta"]):
        betas: dict[float, dict[int, Run]] = {}
        for run in equal:
            betas.setdefault(float(run.regularizers["feddecorr"]["beta"]), {})[run.seed] = run
        if 0.1 not in betas or len(betas) == 1:
            continue
        base = sample(betas[0.1], accuracy)
        parts = [
            Part(
                f"accuracy at beta {beta} minus that at 0.1",
                sample(betas.get(beta, {}), accuracy).minus(base),
                stays_within(POINT),
                POINTS,
            )
            for beta in (0.05, 0.2)
        ]
        trials.append(Trial(equal[0].describe(), parts, equal))
    return trials


def local_epochs(runs: Sequence[Run]) -> list[Trial]:
    """9: FedDecorr improves for each number of local epochs."""
    varied = ["training.epochs"]
    trials = []
    for found in group_duels(duels(runs), varied):
        known = {float(duel.run.settings["training.epochs"]): duel for duel in found}
        if len(known) > 1:
            parts = [gain_part(f"gain with {epochs:g} local epochs", known[epochs]) for epochs in sorted(known)]
            if len(known) == 2:
                parts.append(gain_part("gain with a third number of local epochs", None))
            trials.append(_trial(parts, found, varied))
    return trials


def other_decorrelation(runs: Sequence[Run]) -> list[Trial]:
    """10: DeCov and Structured-DeCov do not help; each with the weight that serves it best."""
    names = ("decov", "structured_decov")
    trials = []
    for equal in group([run for run in runs if run.method == "fedavg"], ["regularizers"]):
        base = {run.seed: run for run in equal if not run.regularizers}
        used = [run for run in equal if len(run.regularizers) == 1 and set(run.regularizers) <= set(names)]
        if base and used:
            parts = [
                Part(f"{name}: gain", best_weight(name, used, base), does_not_increase(POINT), POINTS) for name in names
            ]
            trials.append(Trial(equal[0].describe(), parts, [*base.values(), *used]))
    return trials


def best_weight(name: str, runs: Sequence[Run], base: dict[int, Run]) -> Sample:
    """Return the gains with the options of the highest mean gain, among those with the most seeds."""
    options: dict[str, dict[int, Run]] = {}
    for run in runs:
        if name in run.regularizers:
            options.setdefault(str(run.regularizers[name]), {})[run.seed] = run
    gains = [sample(found, accuracy).minus(sample(base, accuracy)) for found in options.values()]
    return max((gain for gain in gains if gain.values), key=lambda gain: (len(gain), gain.mean), default=NOTHING)


def width(runs: Sequence[Run]) -> list[Trial]:
    """11: wider networks gain more; networks with the same normalization, and without or with the same head."""
    varied = ["model"]
    trials = []
    alike: dict[str, list[Duel]] = {}
    for duel in duels(runs):
        kind = str([duel.run.settings.get(key) for key in ("model.norm", "model.projection")])
        alike.setdefault(kind, []).append(duel)
    for same in alike.values():
        for found in group_duels(same, varied):
            table = {float(duel.run.width): duel.gains()[DECIDING] for duel in found if duel.run.width}
            if len(table) > 1:
                ends = f"{min(table):.0f} to {max(table):.0f} dimensions"
                rise = fitted_change({math.log(size): gains for size, gains in table.items()})
                part = Part(f"rise of the gain from {ends}", rise, increases(POINT), POINTS)
                trials.append(_trial([part], found, varied))
    return trials


def classes_per_client(runs: Sequence[Run]) -> list[Trial]:
    """12: also with C classes per client."""
    varied = ["partition.per_client"]
    trials = []
    held = [duel for duel in duels(runs) if duel.run.settings["partition.name"] == "classes"]
    for found in group_duels(held, varied):
        known = {int(duel.run.settings["partition.per_client"]): duel for duel in found}
        parts = [gain_part(f"gain with {count} classes per client", known.get(count)) for count in (2, 3)]
        trials.append(_trial(parts, found, varied))
    return trials


def speed(runs: Sequence[Run]) -> list[Trial]:
    """13: fewer rounds to a given accuracy."""
    trials = []
    for found in group_duels(duels(runs), ["partition.alpha"]):
        known = by_alpha(found)
        parts = [
            Part(f"saving of rounds at alpha {alpha}", saved_rounds(known[alpha]), increases(TENTH), PERCENT)
            for alpha in STRONG
            if alpha in known
        ]
        if parts:
            trials.append(_trial(parts, found, ["partition.alpha"]))
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
    """Return the first evaluated round with that accuracy; some round of the last ten has their mean."""
    return next(int(line["round"]) for line in summary.rounds if line["model"] and line["model"]["accuracy"] >= goal)


def accuracy(summary: Summary) -> float | None:
    """Return the accuracy by the statistic that decides."""
    return summary.statistic(DECIDING)


def _trial(parts: Sequence[Part], found: Sequence[Duel], varied: Sequence[str] = ()) -> Trial:
    runs = [run for duel in found for run in duel.runs]
    options = ", ".join(f"{key} {value}" for key, value in found[0].run.regularizers["feddecorr"].items())
    return Trial(f"{found[0].run.describe(varied)}, {options}", parts, runs, found[0].is_papers)
