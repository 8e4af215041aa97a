"""Claims about what the gain depends on: clients, beta, local epochs, the regularizer, the network, the split."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

from feddecorr.paper.claims.claim import POINTS, ClaimPart, Trial
from feddecorr.paper.claims.evidence import (
    PRIMARY,
    PairedRuns,
    Run,
    change,
    group,
    group_pairs,
    paired_runs,
    sample,
)
from feddecorr.paper.claims.gains import NOTHING, accuracy, gain_part, others, pair_trial, papers_gain
from feddecorr.paper.claims.rules import POINT, does_not_increase, increases, stays_within
from feddecorr.results.groups import LENGTH
from feddecorr.results.sample import mean_of
from feddecorr.results.summary import STATISTICS

BETAS = (0.05, 0.1, 0.2)


def number_of_clients(runs: Sequence[Run]) -> list[Trial]:
    """7: more clients, more gain."""
    varied = ["clients", "participation", *LENGTH]
    groups = group_pairs(paired_runs(runs), varied)
    return [
        _rising(found, "clients", varied) for found in groups if len({_size(pair, "clients") for pair in found}) > 1
    ]


def _rising(found: Sequence[PairedRuns], what: str, varied: Sequence[str]) -> Trial:
    """Return that the gain rises with the logarithm of a size."""
    sizes = sorted({_size(pair, what) for pair in found})
    gains = [(math.log(_size(pair, what)), pair.gains()) for pair in found]
    rises = {name: change([(x, gain[name]) for x, gain in gains]) for name in STATISTICS}
    says = f"rise of the gain from {sizes[0]:g} to {sizes[-1]:g} {what}"
    part = ClaimPart(says, rises[PRIMARY], increases(POINT), POINTS, others(rises), tested=True)
    return pair_trial([part], found, varied)


def _size(pair: PairedRuns, what: str) -> float:
    return float(pair.run.width if what == "dimensions" else pair.run.settings[what])


def strength(runs: Sequence[Run]) -> list[Trial]:
    """8: insensitive to beta around 0.1."""
    trials = []
    for equal in group([run for run in runs if run.method == "fedavg"], ["regularizers"]):
        pairs = {
            float(pair.run.regularizers["feddecorr"]["beta"]): pair
            for pair in paired_runs(equal)
            if pair.run.regularizers["feddecorr"]["normalization"] == "released"
        }
        known = {beta: pairs[beta] for beta in BETAS if beta in pairs}
        if 0.1 in known and len(known) > 1:
            trials.append(pair_trial(_insensitive(known), list(known.values())))
    return trials


def _insensitive(known: Mapping[float, PairedRuns]) -> list[ClaimPart]:
    """Return that each strength gains, and that they differ by less than half of what is gained."""
    gains = {beta: pair.gains() for beta, pair in known.items()}
    parts = [gain_part(f"gain at beta {beta}", known.get(beta)) for beta in BETAS]
    half = mean_of(gain[PRIMARY] for gain in gains.values()).mean / 2
    for beta in (0.05, 0.2):
        differences = {
            name: gains[beta][name].minus(gains[0.1][name]) if beta in gains else NOTHING for name in STATISTICS
        }
        says = f"gain at beta {beta} within half of the mean gain ({100 * half:.2f}) from that at 0.1"
        parts.append(ClaimPart(says, differences[PRIMARY], stays_within(max(half, 0.0)), POINTS, others(differences)))
    return parts


def local_epochs(runs: Sequence[Run]) -> list[Trial]:
    """9: FedDecorr improves for each number of local epochs."""
    varied = ["training.epochs", *LENGTH]
    trials = []
    for found in group_pairs(paired_runs(runs), varied):
        longest = sorted(found, key=lambda pair: pair.run.work)
        known = {float(pair.run.settings["training.epochs"]): pair for pair in longest}
        if len(known) > 1:
            parts = [_epochs_part(epochs, known[epochs]) for epochs in sorted(known)]
            if len(known) == 2:
                parts.append(gain_part("gain with a third number of local epochs", None))
            trials.append(pair_trial(parts, list(known.values()), varied))
    return trials


def _epochs_part(epochs: float, pair: PairedRuns) -> ClaimPart:
    settings = pair.run.settings
    paper = papers_gain("epochs", str(settings["data.name"]), epochs=int(epochs), alpha=pair.run.alpha or 0.0)
    return gain_part(f"gain with {epochs:g} local epochs", pair, paper)


def other_decorrelation(runs: Sequence[Run]) -> list[Trial]:
    """10: DeCov and Structured-DeCov do not help, and FedDecorr is better than each; each at its best weight."""
    names = ("decov", "structured_decov")
    trials = []
    for equal in group([run for run in runs if run.method == "fedavg"], ["regularizers"]):
        pairs = [pair for pair in paired_runs(equal) if pair.is_papers]
        used = [run for run in equal if len(run.regularizers) == 1 and set(run.regularizers) <= set(names)]
        if pairs and used:
            parts = [part for name in names for part in _against(name, used, pairs[0])]
            trials.append(pair_trial(parts, [pairs[0]]))
    return trials


def _against(name: str, runs: Sequence[Run], pair: PairedRuns) -> list[ClaimPart]:
    """Return that a regularizer does not help, and that FedDecorr is better."""
    options: dict[str, dict[int, Run]] = {}
    for run in runs:
        if name in run.regularizers:
            options.setdefault(json.dumps(run.regularizers[name], sort_keys=True), {})[run.seed] = run
    planned = {key: arm for key, arm in options.items() if next(iter(arm.values())).declared != 0} or options
    arm = max(planned.values(), key=len, default={})
    theirs, plain, ours = (sample(found, accuracy) for found in (arm, pair.without, pair.decorrelated))
    return [
        ClaimPart(f"gain of {name}", theirs.minus(plain), does_not_increase(POINT), POINTS),
        ClaimPart(f"FedDecorr beyond {name}", ours.minus(theirs), increases(POINT), POINTS, tested=True),
    ]


def width(runs: Sequence[Run]) -> list[Trial]:
    """11: wider networks gain more; networks that differ in the width of the representation alone."""
    alike: dict[str, list[PairedRuns]] = {}
    for pair in paired_runs(runs):
        if pair.run.width:
            alike.setdefault(_other_layers(pair.run), []).append(pair)
    groups = [found for same in alike.values() for found in group_pairs(same, ["model"])]
    return [_rising(found, "dimensions", ["model"]) for found in groups if len({pair.run.width for pair in found}) > 1]


def _other_layers(run: Run) -> str:
    """Return all that is known of a network but the width of its last layer."""
    model = dict(run.summary.experiment["model"])
    if model.get("widths"):
        model["widths"] = model["widths"][:-1]
    return json.dumps(model, sort_keys=True)


def classes_per_client(runs: Sequence[Run]) -> list[Trial]:
    """12: also with C classes per client."""
    varied = ["partition.per_client"]
    trials = []
    held = [pair for pair in paired_runs(runs) if pair.run.settings["partition.name"] == "classes"]
    for found in group_pairs(held, varied):
        known = {int(pair.run.settings["partition.per_client"]): pair for pair in found}
        data = str(found[0].run.settings["data.name"])
        parts = [
            gain_part(
                f"gain with {count} classes per client", known.get(count), papers_gain("classes", data, classes=count)
            )
            for count in (2, 3)
        ]
        trials.append(pair_trial(parts, found, varied))
    return trials
