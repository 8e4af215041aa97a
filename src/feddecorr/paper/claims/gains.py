"""Claims about accuracy: when FedDecorr helps, on which methods, how soon, and what the gain depends on."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from feddecorr.paper.claims.claim import (
    PERCENT,
    POINT,
    POINTS,
    TENTH,
    ClaimPart,
    DecisionRule,
    Trial,
    does_not_increase,
    increases,
    stays_within,
)
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
from feddecorr.paper.values import published
from feddecorr.results.groups import LENGTH, group_by
from feddecorr.results.sample import Sample, mean_of
from feddecorr.results.study import Label
from feddecorr.results.summary import STATISTICS, Summary

BETAS = (0.05, 0.1, 0.2)
STRONG = (0.05, 0.1)
WEAK = 0.5
NOTHING = Sample({})
ROUNDING = 1e-9


def gain_part(says: str, pair: PairedRuns | None, paper: float | None = None) -> ClaimPart:
    """Return that FedDecorr improves accuracy; nothing is measured where there is no pair."""
    return accuracy_part(says, pair.gains() if pair else {}, paper=paper, pair=pair)


def accuracy_part(
    says: str,
    differences: Mapping[str, Sample],
    rule: DecisionRule | None = None,
    *,
    paper: float | None = None,
    pair: PairedRuns | None = None,
) -> ClaimPart:
    """Return a part about differences in accuracy, by statistic; without a rule, that they are gains, which is tested.

    One statistic decides, if it is there; the others are shown.
    """
    shown = {name: found for name, found in differences.items() if name != PRIMARY}
    primary = differences.get(PRIMARY, NOTHING)
    return ClaimPart(says, primary, rule or increases(POINT), POINTS, shown, paper, tested=rule is None, pair=pair)


def papers_gain(table: str, data: str, *, regularizer: str = "feddecorr", **labels: Label) -> float | None:
    """Return what a regularizer adds in a table of the paper, if it has that row for the data set."""
    asked = {"data": data, "method": "fedavg", **labels}
    without, found = (published(table, {**asked, "regularizer": name}) for name in ("none", regularizer))
    return (found[0].mean - without[0].mean) / 100 if without and found else None


def by_alpha(found: Iterable[PairedRuns]) -> dict[float, PairedRuns]:
    """Return pairs by their split's alpha."""
    return {pair.run.alpha: pair for pair in found if pair.run.alpha is not None}


def heterogeneity(runs: Sequence[Run]) -> Iterator[Trial]:
    """4: FedDecorr improves FedAvg at alpha 0.05 and 0.1, by more than at 0.5."""
    for found in group_pairs(paired_runs(runs), ["partition.alpha"]):
        known = by_alpha(found)
        if known.keys() & set(STRONG):
            data = found[0].run.data
            parts = [
                gain_part(f"gain at alpha {alpha}", known.get(alpha), papers_gain("main", data, alpha=alpha))
                for alpha in STRONG
            ]
            yield pair_trial([*parts, more_than_weak("", known, STRONG)], found, ["partition.alpha"])


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
    return accuracy_part(says, differences)


def other_methods(runs: Sequence[Run]) -> Iterator[Trial]:
    """5: the same on FedProx, FedAvgM and MOON; at 0.05 and 0.1 as far as they are recorded."""
    varied = ["method", "partition.alpha", "model.projection"]
    names = ("fedprox", "fedavgm", "moon")
    for found in group_pairs([pair for name in names for pair in paired_runs(runs, name)], varied):
        data = found[0].run.data
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
        yield pair_trial(parts, found, varied)


def homogeneous(runs: Sequence[Run]) -> Iterator[Trial]:
    """6: at alpha = inf it is on par."""
    for pair in paired_runs(runs):
        if pair.run.alpha == math.inf:
            paper = papers_gain("main", pair.run.data, alpha="inf")
            part = accuracy_part("gain at alpha inf", pair.gains(), stays_within(POINT), paper=paper, pair=pair)
            yield pair_trial([part], [pair])


def speed(runs: Sequence[Run]) -> Iterator[Trial]:
    """13: fewer rounds to a given accuracy."""
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
            yield pair_trial(parts, found, ["partition.alpha"])


def saved_rounds(pair: PairedRuns) -> Sample:
    """Return log(rounds without / rounds with) until both have reached what the weaker of them has in the end."""
    found = {}
    for seed in pair.pair.seeds:
        arms = [pair.pair.first[seed], pair.pair.second[seed]]
        ends = [accuracy(summary) for summary in arms]
        if None not in ends:
            goal = min(end for end in ends if end is not None)
            before, after = (rounds_until(summary, goal) for summary in arms)
            found[seed] = math.log(before / after)
    return Sample(found, pair.pair.declared)


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
    options = ", ".join(f"{key} {value}" for key, value in found[0].options.items())
    return Trial(f"{found[0].run.describe(varied)}, {options}", parts, runs, found[0].is_papers)


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
    return pair_trial([accuracy_part(says, rises)], found, varied)


def _size(pair: PairedRuns, what: str) -> float:
    return float(pair.run.width if what == "dimensions" else pair.run.settings[what])


def strength(runs: Sequence[Run]) -> Iterator[Trial]:
    """8: insensitive to beta around 0.1."""
    for equal in group([run for run in runs if run.method == "fedavg"], ["regularizers"]):
        pairs = {
            float(pair.options["beta"]): pair
            for pair in paired_runs(equal)
            if pair.options["normalization"] == "released"
        }
        known = {beta: pairs[beta] for beta in BETAS if beta in pairs}
        if 0.1 in known and len(known) > 1:
            yield pair_trial(_insensitive(known), list(known.values()))


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
        parts.append(accuracy_part(says, differences, stays_within(max(half, 0.0))))
    return parts


def local_epochs(runs: Sequence[Run]) -> Iterator[Trial]:
    """9: FedDecorr improves for each number of local epochs."""
    varied = ["training.epochs", *LENGTH]
    for found in group_pairs(paired_runs(runs), varied):
        longest = sorted(found, key=lambda pair: pair.run.work)
        known = {float(pair.run.settings["training.epochs"]): pair for pair in longest}
        if len(known) > 1:
            parts = [_epochs_part(epochs, known[epochs]) for epochs in sorted(known)]
            if len(known) == 2:
                parts.append(gain_part("gain with a third number of local epochs", None))
            yield pair_trial(parts, list(known.values()), varied)


def _epochs_part(epochs: float, pair: PairedRuns) -> ClaimPart:
    paper = papers_gain("epochs", pair.run.data, epochs=int(epochs), alpha=pair.run.alpha or 0.0)
    return gain_part(f"gain with {epochs:g} local epochs", pair, paper)


def other_decorrelation(runs: Sequence[Run]) -> Iterator[Trial]:
    """10: DeCov and Structured-DeCov do not help, and FedDecorr is better than each; each at its best weight."""
    names = ("decov", "structured_decov")
    for equal in group([run for run in runs if run.method == "fedavg"], ["regularizers"]):
        pairs = [pair for pair in paired_runs(equal) if pair.is_papers]
        used = [run for run in equal if len(run.regularizers) == 1 and set(run.regularizers) <= set(names)]
        if pairs and used:
            parts = [part for name in names for part in _against(name, used, pairs[0])]
            yield pair_trial(parts, [pairs[0]])


def _against(name: str, runs: Sequence[Run], pair: PairedRuns) -> list[ClaimPart]:
    """Return that a regularizer does not help, and that FedDecorr is better."""
    options = [{run.seed: run for run in same} for same in group(run for run in runs if name in run.regularizers)]
    planned = [arm for arm in options if next(iter(arm.values())).declared != 0] or options
    arm = max(planned, key=len, default={})
    theirs, plain, ours = (sample(found, accuracy) for found in (arm, pair.without, pair.decorrelated))
    return [
        ClaimPart(f"gain of {name}", theirs.minus(plain), does_not_increase(POINT), POINTS),
        ClaimPart(f"FedDecorr beyond {name}", ours.minus(theirs), increases(POINT), POINTS, tested=True),
    ]


def width(runs: Sequence[Run]) -> list[Trial]:
    """11: wider networks gain more; networks that differ in the width of the representation alone."""
    wide = [pair for pair in paired_runs(runs) if pair.run.width]
    alike = group_by(wide, lambda pair: _other_layers(pair.run))
    groups = [found for same in alike.values() for found in group_pairs(same, ["model"])]
    return [_rising(found, "dimensions", ["model"]) for found in groups if len({pair.run.width for pair in found}) > 1]


def _other_layers(run: Run) -> str:
    """Return all that is known of a network but the width of its last layer."""
    model = dict(run.summary.experiment["model"])
    if model.get("widths"):
        model["widths"] = model["widths"][:-1]
    return json.dumps(model, sort_keys=True)


def classes_per_client(runs: Sequence[Run]) -> Iterator[Trial]:
    """12: also with C classes per client."""
    varied = ["partition.per_client"]
    held = [pair for pair in paired_runs(runs) if pair.run.settings["partition.name"] == "classes"]
    for found in group_pairs(held, varied):
        known = {int(pair.run.settings["partition.per_client"]): pair for pair in found}
        data = found[0].run.data
        parts = [
            gain_part(
                f"gain with {count} classes per client", known.get(count), papers_gain("classes", data, classes=count)
            )
            for count in (2, 3)
        ]
        yield pair_trial(parts, found, varied)
