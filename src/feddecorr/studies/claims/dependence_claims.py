"""Claims about what the gain depends on: clients, beta, local epochs, the regularizer, the network, the split."""

from __future__ import annotations

import math
from collections.abc import Sequence

from feddecorr.studies.claims.claim import POINTS, Part, Trial
from feddecorr.studies.claims.duels import DECIDING, Duel, Run, change, duels, group, group_duels, sample
from feddecorr.studies.claims.gain_claims import NOTHING, accuracy, duel_trial, gain_part
from feddecorr.studies.claims.rules import POINT, does_not_increase, increases, stays_within
from feddecorr.studies.contexts import LENGTH
from feddecorr.studies.sample import Sample


def number_of_clients(runs: Sequence[Run]) -> list[Trial]:
    """7: more clients, more gain."""
    varied = ["clients", "participation", *LENGTH]
    groups = group_duels(duels(runs), varied)
    return [
        _rising(found, "clients", varied) for found in groups if len({_size(duel, "clients") for duel in found}) > 1
    ]


def _rising(found: Sequence[Duel], what: str, varied: Sequence[str]) -> Trial:
    """Return that the gain rises with the logarithm of a size."""
    points = [(math.log(_size(duel, what)), duel.gains()[DECIDING]) for duel in found]
    ends = [round(math.exp(end)) for end in (min(x for x, _ in points), max(x for x, _ in points))]
    says = f"rise of the gain from {ends[0]} to {ends[1]} {what}"
    return duel_trial([Part(says, change(points), increases(POINT), POINTS)], found, varied)


def _size(duel: Duel, what: str) -> float:
    return float(duel.run.width if what == "dimensions" else duel.run.settings[what])


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
    varied = ["training.epochs", *LENGTH]
    trials = []
    for found in group_duels(duels(runs), varied):
        longest = sorted(found, key=lambda duel: duel.run.work)
        known = {float(duel.run.settings["training.epochs"]): duel for duel in longest}
        if len(known) > 1:
            parts = [gain_part(f"gain with {epochs:g} local epochs", known[epochs]) for epochs in sorted(known)]
            if len(known) == 2:
                parts.append(gain_part("gain with a third number of local epochs", None))
            trials.append(duel_trial(parts, found, varied))
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
    alike: dict[str, list[Duel]] = {}
    for duel in duels(runs):
        kind = str([duel.run.settings.get(key) for key in ("model.norm", "model.projection")])
        if duel.run.width:
            alike.setdefault(kind, []).append(duel)
    groups = [found for same in alike.values() for found in group_duels(same, ["model"])]
    return [_rising(found, "dimensions", ["model"]) for found in groups if len({duel.run.width for duel in found}) > 1]


def classes_per_client(runs: Sequence[Run]) -> list[Trial]:
    """12: also with C classes per client."""
    varied = ["partition.per_client"]
    trials = []
    held = [duel for duel in duels(runs) if duel.run.settings["partition.name"] == "classes"]
    for found in group_duels(held, varied):
        known = {int(duel.run.settings["partition.per_client"]): duel for duel in found}
        parts = [gain_part(f"gain with {count} classes per client", known.get(count)) for count in (2, 3)]
        trials.append(duel_trial(parts, found, varied))
    return trials
