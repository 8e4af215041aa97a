"""Each claim gives each verdict, on records that say so."""

import json
from collections.abc import Callable, Container, Sequence
from datetime import date
from typing import Any

import pytest
from made_up import over_seeds, summary

from feddecorr.paper.claims import MEASURED, judge
from feddecorr.paper.claims.claim import Claim, ClaimPart, correct_trials, judge_trials
from feddecorr.paper.claims.evidence import Plan, Question, runs_of
from feddecorr.paper.claims.others import computation, proposition, theorem
from feddecorr.paper.studies import STUDIES
from feddecorr.results.study import Arm
from feddecorr.results.summary import Summary

BASE = (0.50, 0.52, 0.51, 0.49, 0.53)
CLEAR, NONE = (0.04, 0.05, 0.06, 0.05, 0.045), (0.0, 0.001, -0.001, 0.002, -0.002)
WORSE, UNSURE = tuple(-gain for gain in CLEAR), (0.2, -0.15, 0.04, -0.1, 0.12)
MORE = tuple(2 * gain for gain in CLEAR)
SEEDS = range(len(BASE))


def judged(number: str, summaries: Sequence[Summary], plan: Plan | None = None) -> Claim:
    sentence, study, find = MEASURED[number]
    trials = correct_trials({number: find(runs_of(summaries, plan))})
    return judge_trials(number, sentence, trials[number], study)


def pair(words: str, gains: Sequence[float], **others: float) -> list[Summary]:
    """Return runs without FedDecorr and with it, which gain this much."""
    better = [base + gain for base, gain in zip(BASE, gains, strict=False)]
    return [
        *over_seeds(f"{words} regularizers=none", BASE[: len(better)], **others),
        *over_seeds(f"{words} regularizers=feddecorr", better, **others),
    ]


def alphas(strong: Sequence[float], weak: Sequence[float], words: str = "") -> list[Summary]:
    return [
        *pair(f"{words} partition.alpha=0.05", strong),
        *pair(f"{words} partition.alpha=0.1", strong),
        *pair(f"{words} partition.alpha=0.5", weak),
    ]


def methods(strong: Sequence[float], weak: Sequence[float]) -> list[Summary]:
    return [run for name in ("fedprox", "fedavgm", "moon") for run in alphas(strong, weak, f"method={name}")]


def ranks(*values: float, local: bool = False, spread: float = 0.1) -> list[Summary]:
    """Return runs without FedDecorr whose rank has these values at rising alpha."""
    return [
        summary(
            f"partition.alpha={alpha} seed={seed}",
            rank=4.0 if local else found,
            local_rank=found if local else None,
        )
        for place, (alpha, value) in enumerate(zip((0.01, 0.05, 0.25, "inf"), values, strict=True))
        for seed in SEEDS
        for found in [value + spread * ((seed + place) % 5 - 2) / 2]
    ]


def tails(*factors: float) -> list[Summary]:
    return [
        summary(f"partition.alpha=0.05 regularizers={name} seed={seed}", tail=tail, local_rank=4.0)
        for seed, factor in enumerate(factors)
        for name, tail in (("none", 1.0), ("feddecorr", factor))
    ]


def clients(*gains: Sequence[float]) -> list[Summary]:
    return [run for count, gain in zip((10, 30, 100), gains, strict=True) for run in pair(f"clients={count}", gain)]


def epochs(*gains: Sequence[float]) -> list[Summary]:
    return [
        run for count, gain in zip((1, 5, 10), gains, strict=True) for run in pair(f"training.epochs={count}", gain)
    ]


def betas(*gains: Sequence[float]) -> list[Summary]:
    runs = over_seeds("regularizers=none", BASE)
    for beta, gain in zip((0.05, 0.1, 0.2), gains, strict=True):
        values = [base + more for base, more in zip(BASE, gain, strict=True)]
        runs += over_seeds(f"regularizers=feddecorr regularizers.feddecorr.beta={beta}", values)
    return runs


def decov(ours: Sequence[float], *gains: Sequence[float]) -> list[Summary]:
    runs = pair("", ours)
    for name, gain in zip(("decov", "structured_decov"), gains, strict=True):
        values = [base + more for base, more in zip(BASE, gain, strict=True)]
        runs += over_seeds(f"regularizers={name}", values)
    return runs


def widths(*gains: Sequence[float]) -> list[Summary]:
    """Return networks of three widths; the width is that of the recorded spectrum."""
    return [
        Summary.from_dict({**run.to_dict(), "spectrum": [1.0] * width})
        for width, gain in zip((8, 64, 512), gains, strict=True)
        for run in pair(f"model=convnet model.widths=[8,{width}]", gain)
    ]


def classes(two: Sequence[float], three: Sequence[float]) -> list[Summary]:
    return [
        *pair("partition=classes partition.per_client=2", two),
        *pair("partition=classes partition.per_client=3", three),
    ]


def curves(without: int, beside: Sequence[int]) -> list[Summary]:
    """Return runs that come to their plateau in these rounds of twelve."""

    def curve(reached: int) -> list[float]:
        return [0.1] * (reached - 1) + [0.5] * (13 - reached)

    return [
        summary(f"partition.alpha=0.05 regularizers={name} seed={seed}", accuracy=curve(reached))
        for seed, late in enumerate(beside)
        for name, reached in (("none", without), ("feddecorr", late))
    ]


def terms(*ends: float) -> list[Summary]:
    """Return runs in which the loss goes from one to these values over ten epochs on two clients."""
    return [
        summary(
            f"regularizers=feddecorr seed={seed}",
            terms={client: [1 + (end - 1) * epoch / 9 for epoch in range(10)] for client in "01"},
        )
        for seed, end in enumerate(ends)
    ]


def averaged(*factors: float) -> list[Summary]:
    """Return runs whose clients' models have a multiple of the average's rank."""
    return [summary(f"seed={seed}", rank=4.0, local_rank=4 * factor) for seed, factor in enumerate(factors)]


EVIDENCE: dict[str, tuple[list[Summary], list[Summary], list[Summary]]] = {
    "1": (ranks(2, 3, 4, 6), ranks(6, 4, 3, 2), ranks(4, 4, 4, 4, spread=3.0)),
    "2": (ranks(2, 3, 4, 6, local=True), ranks(6, 4, 3, 2, local=True), ranks(4, 4, 4, 4, local=True, spread=3.0)),
    "3": (tails(2, 2.2, 1.9, 2, 2.1), tails(0.5, 0.45, 0.55, 0.5, 0.6), tails(0.5, 2.5, 1.4, 0.6, 2)),
    "4": (alphas(CLEAR, NONE), alphas(WORSE, NONE), alphas(UNSURE, NONE)),
    "5": (methods(CLEAR, NONE), methods(WORSE, NONE), methods(UNSURE, NONE)),
    "6": (
        pair("partition.alpha=inf", NONE),
        pair("partition.alpha=inf", WORSE),
        pair("partition.alpha=inf", UNSURE),
    ),
    "7": (clients(NONE, CLEAR, MORE), clients(CLEAR, NONE, WORSE), clients(NONE, CLEAR, UNSURE)),
    "8": (betas(CLEAR, CLEAR, CLEAR), betas(WORSE, NONE, WORSE), betas(UNSURE, UNSURE[::-1], UNSURE)),
    "9": (epochs(CLEAR, CLEAR, CLEAR), epochs(WORSE, WORSE, WORSE), epochs(UNSURE, UNSURE, UNSURE)),
    "10": (decov(CLEAR, NONE, WORSE), decov(WORSE, CLEAR, CLEAR), decov(UNSURE, UNSURE[::-1], UNSURE[::-1])),
    "11": (widths(NONE, CLEAR, MORE), widths(CLEAR, NONE, WORSE), widths(NONE, UNSURE, UNSURE)),
    "12": (classes(CLEAR, CLEAR), classes(NONE, WORSE), classes(UNSURE, UNSURE)),
    "13": (curves(8, (4, 5, 4, 5, 4)), curves(5, (8, 9, 8, 8, 9)), curves(5, (2, 9, 5, 3, 8))),
    "15": (terms(0.5, 0.6, 0.55, 0.5, 0.6), terms(30, 35, 40, 30, 30), terms(0.5, 40, 1.2, 30, 0.8)),
    "F1": (averaged(2.0, 2.2, 1.9, 2, 2), averaged(0.5, 0.6, 0.55, 0.5, 0.5), averaged(0.4, 2.5, 1.2, 0.5, 2)),
}
"""Records from which the claim holds, does not hold, and is open."""


@pytest.mark.parametrize("number", MEASURED)
@pytest.mark.parametrize(("place", "verdict"), [(0, "holds"), (1, "does not hold"), (2, "not measured")])
def test_every_claim_can_hold_and_fail_and_stay_open(number: str, place: int, verdict: str) -> None:
    """With five seeds each; what is open says how many would be needed."""
    claim = judged(number, EVIDENCE[number][place])
    assert claim.verdict == verdict, claim.says
    assert claim.seeds == "5"
    assert claim.commands
    assert claim.needed is None or claim.needed > len(SEEDS)


@pytest.mark.parametrize(
    ("number", "runs", "named"),
    [
        ("1", ranks(2, 5, 6, 4), "at alpha inf beyond that at 0.05"),
        ("4", alphas(CLEAR, CLEAR), "beyond that at 0.5"),
        ("8", betas(CLEAR, MORE, CLEAR), "gain at beta 0.05 within"),
        ("9", epochs(CLEAR, WORSE, CLEAR), "gain with 5 local epochs"),
        ("10", decov(NONE, NONE, NONE), "FedDecorr beyond decov"),
        ("12", classes(NONE, CLEAR), "gain with 2 classes"),
    ],
)
def test_a_claim_that_is_true_in_parts_names_the_others(number: str, runs: list[Summary], named: str) -> None:
    """An effective rank that is higher at 0.05 than on homogeneous data is not passed over by a slope."""
    claim = judged(number, runs)
    assert claim.verdict == "partly"
    assert any(named in part.says and part.answer is False for part in claim.parts)
    assert "| not true:" in claim.says


def test_many_questions_are_corrected_together() -> None:
    """A gain that convinces by itself does not when many others were asked for, and both p-values are shown."""
    weak = [0.02, 0.03, 0.002, 0.025, 0.004]  # p is about 0.03
    alone = judged("9", epochs(weak, CLEAR, CLEAR))
    part = next(part for part in alone.parts if part.says == "gain with 1 local epochs")
    assert isinstance(part, ClaimPart)
    assert part.corrected is not None
    assert part.sample.p_value < 0.05
    many = judge([*epochs(weak, CLEAR, CLEAR), *classes(NONE, NONE), *methods(NONE, NONE)])
    same = next(part for claim in many if claim.number == "9" for part in claim.parts if part.says == part.says)
    assert isinstance(same, ClaimPart)
    assert same.corrected is not None
    assert same.corrected > 0.05
    assert same.answer is None


def test_seeds_are_judged_when_all_that_are_declared_are_done_and_no_others() -> None:
    """Fewer leave the claim open; more of them do not count; a setting that was not declared decides nothing."""
    arms = STUDIES["classes"].arms("small", 7)

    def records(seeds: Container[int], gain: float) -> list[Summary]:
        return [
            summary(arm, accuracy=0.5 + gain * (arm.labels["regularizer"] != "none") + wobble(arm))
            for arm in arms
            if arm.labels["seed"] in seeds
        ]

    plan = Plan([Question(study="classes", scale="small", seeds=6, declared=date(2026, 11, 17))])
    assert judged("12", records(range(5), 0.05), plan).verdict == "not measured"
    assert judged("12", records(range(5), 0.05), plan).seeds == "5 of 6"
    assert judged("12", records(range(6), 0.05), plan).verdict == "holds"
    assert judged("12", [*records(range(6), 0.05), *records([6], -9.0)], plan).verdict == "holds"
    assert judged("12", records(range(7), 0.05), Plan()).verdict == "not measured"


def wobble(arm: Arm) -> float:
    """Return a little that differs from seed to seed."""
    return 0.001 * (int(arm.labels["seed"]) % 3) * (arm.labels["regularizer"] != "none")


def test_clients_models_count_only_where_they_differ_from_the_global_one() -> None:
    """With a learning rate that ends at nothing, both are the same model."""
    annealed = [
        Summary.from_dict(
            {
                **run.to_dict(),
                "experiment": {
                    **run.experiment,
                    "training": {**run.experiment["training"], "schedule": {"name": "cosine", "over": 12}},
                },
            }
        )
        for run in EVIDENCE["2"][0]
    ]
    assert judged("2", annealed).parts == []
    assert judged("F1", annealed).parts == []


def test_of_each_number_of_local_epochs_the_longest_runs_count() -> None:
    """Whatever shorter runs say, and in any order."""
    short, long = pair("training.epochs=5 rounds=11", WORSE), EVIDENCE["9"][0]
    assert judged("9", [*long, *short]).verdict == judged("9", [*short, *long]).verdict == "holds"


@pytest.mark.parametrize(
    ("number", "scale"), [("7", "small"), ("7", "many"), ("9", "many"), ("11", "many"), ("12", "many")]
)
def test_all_runs_of_the_study_that_answers_a_claim_are_one_setting(number: str, scale: str) -> None:
    """Though rounds, and those over which the learning rate falls, go with clients and local epochs."""
    _, study, trials = MEASURED[number]
    arms = STUDIES[study].arms(scale, seeds=3)
    made = [Summary.from_dict({**summary(arm).to_dict(), "spectrum": spectrum(arm)}) for arm in arms]
    (trial,) = trials(runs_of(made))
    assert len(trial.runs) == len(arms)
    assert all(len(part.sample) == 3 for part in trial.parts)


def spectrum(arm: Arm) -> list[float]:
    """Return one of the width that the arm's network has."""
    return [1.0] * int(str(arm.labels.get("model", "16")).split()[0])


@pytest.mark.parametrize("number", MEASURED)
@pytest.mark.parametrize("place", [0, 1])
def test_four_seeds_are_too_few_for_either_verdict(number: str, place: int) -> None:
    """Whatever they say."""
    few = [run for run in EVIDENCE[number][place] if run.experiment["seed"] < 4]
    claim = judged(number, few)
    assert claim.verdict == "not measured"
    assert claim.needed is not None
    assert claim.needed >= 5


@pytest.mark.parametrize("number", MEASURED)
def test_without_records_a_claim_names_the_study_that_answers_it(number: str) -> None:
    """As a command."""
    claim = judged(number, [])
    assert claim.verdict == "not measured"
    assert claim.commands == [f"feddecorr reproduce {MEASURED[number][1]} --scale small --seeds 5"]


@pytest.mark.parametrize("number", MEASURED)
def test_the_order_of_records_changes_nothing(number: str) -> None:
    """Nor do other records among them that cannot answer the claim."""
    runs = EVIDENCE[number][0]
    other = over_seeds("method=fednova data=mnist", BASE)
    assert judged(number, [*other, *reversed(runs)]).to_dict() == judged(number, runs).to_dict()


@pytest.mark.parametrize("number", ["1", "2", "3", "F1"])
def test_of_two_records_of_a_run_the_one_that_tells_of_clients_models_counts(number: str) -> None:
    """In any order; the other was done for a question that does not ask for them."""
    full = EVIDENCE[number][0]
    lean = [Summary.from_dict({**run.to_dict(), "digest": f"lean {run.digest}", "local_models": {}}) for run in full]
    for runs in ([*full, *lean], [*lean, *full]):
        assert judged(number, runs).to_dict()["parts"] == judged(number, full).to_dict()["parts"]


SIGNED: dict[str, Callable[[Sequence[float]], list[Summary]]] = {
    "4": lambda gains: alphas(gains, NONE),
    "9": lambda gains: epochs(gains, gains, gains),
    "12": lambda gains: classes(gains, gains),
}


@pytest.mark.parametrize("number", SIGNED)
def test_the_same_rule_holds_for_both_arms(number: str) -> None:
    """Where a clear gain holds, the same loss does not; where one is unsure, so is the other."""
    make = SIGNED[number]
    assert judged(number, make(CLEAR)).verdict == "holds"
    assert judged(number, make([-gain for gain in CLEAR])).verdict == "does not hold"
    assert judged(number, make(UNSURE)).verdict == "not measured"
    assert judged(number, make([-gain for gain in UNSURE])).verdict == "not measured"


def test_runs_that_differ_in_anything_else_are_no_pair() -> None:
    """Another number of rounds, another part of the data, another network."""
    for words in ("rounds=24", "data.train=500", "model=resnet20"):
        runs = [
            *over_seeds("partition.alpha=inf regularizers=none", BASE),
            *over_seeds(f"partition.alpha=inf regularizers=feddecorr {words}", BASE),
        ]
        assert judged("6", runs).parts == []


def test_the_setting_nearest_to_the_papers_answers_and_the_others_are_listed() -> None:
    """A convnet with more seeds does not outrank a ResNet, whatever either says; one with too few seeds does not."""
    convnet = [
        *over_seeds("partition.alpha=inf model=convnet regularizers=none", [*BASE, 0.5]),
        *over_seeds("partition.alpha=inf model=convnet regularizers=feddecorr", [*BASE, 0.5]),
    ]
    resnet = pair("partition.alpha=inf model=resnet20", WORSE)
    claim = judged("6", [*convnet, *resnet])
    assert (claim.verdict, claim.seeds) == ("does not hold", "5")
    assert [each["verdict"] for each in claim.elsewhere] == ["holds"]
    unsure = pair("partition.alpha=inf model=resnet20", UNSURE)
    assert judged("6", [*convnet, *unsure]).verdict == "holds"


def test_of_equal_settings_the_same_decides_in_any_order() -> None:
    """Two networks with as many seeds, runs and images."""
    runs = [*pair("partition.alpha=inf", NONE), *pair("partition.alpha=inf model=lenet", WORSE)]
    claim = judged("6", runs)
    assert claim.to_dict() == judged("6", runs[::-1]).to_dict()
    assert len(claim.elsewhere) == 1


def test_another_strength_of_the_loss_decides_only_where_the_papers_is_not_there() -> None:
    """The claim is about beta 0.1."""
    weak = [
        *over_seeds("partition.alpha=inf", [0.5] * 5),
        *over_seeds("partition.alpha=inf regularizers=feddecorr regularizers.feddecorr.beta=1", [0.3] * 5),
    ]
    papers = over_seeds("partition.alpha=inf regularizers=feddecorr", [0.5] * 5)
    assert judged("6", weak).verdict == "does not hold"
    assert judged("6", [*weak, *papers]).verdict == "holds"


def costs(step: float, term: float = 1.0, ours: float = 1.01, pairs: int = 30) -> list[dict[str, Any]]:
    return [
        {
            "command": "a",
            "ratio to plain": {"feddecorr": step},
            "milliseconds of a term": {"feddecorr": term, "fedprox": 2.0},
            "pairs": pairs,
        },
        {"command": "b", "ratio to FedAvg": {"fedavg with feddecorr": ours, "moon": 1.5}},
    ]


def test_computation_is_judged_by_recorded_costs() -> None:
    """In three parts: the overhead of a step, the term against FedProx's, and a round against MOON's."""
    assert computation("14", "", costs(1.01)).verdict == "holds"
    measured = ["python -m benchmarks.loss_cost", "python -m benchmarks.methods_cost"]
    commands = computation("14", "", costs(1.01)).commands
    assert [command.partition(" --")[0] for command in commands] == measured
    for wrong in (costs(1.04), costs(1.01, term=3.0), costs(1.01, ours=1.6), costs(1.01, pairs=29)):
        assert computation("14", "", wrong).verdict == "partly"
    assert computation("14", "", costs(1.04, term=3.0, ours=1.6)).verdict == "does not hold"
    assert computation("14", "", costs(1.01)[:1]).verdict == "not measured"


def test_the_theory_is_checked_on_the_spot() -> None:
    """Theorem 1 with the G of its proof, and Proposition 1; as printed, the theorem is far off."""
    found = theorem("16", "")
    assert found.verdict == "partly"
    assert [part.answer for part in found.parts] == [True, False]
    assert "not true: with G as printed" in found.says
    assert proposition("17", "").verdict == "holds"


def test_all_are_answered_and_ready_for_json() -> None:
    """The paper's claims in their order and then ours, with the same keys."""
    everything = [run for number in EVIDENCE for run in EVIDENCE[number][0]]
    found = judge(everything, costs(1.0))
    assert [claim.number for claim in found] == [*map(str, range(1, 18)), "F1"]
    documents = json.loads(json.dumps([claim.to_dict() for claim in found], allow_nan=False))
    assert {"claim", "verdict", "says", "parts", "commands", "needed"} <= documents[0].keys()
    assert all(document.keys() == documents[0].keys() for document in documents)
