"""Each claim gives each verdict, on records that say so."""

import json
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest
from made_up import over_seeds, summary

from feddecorr.studies.catalogue import STUDIES
from feddecorr.studies.claims import MEASURED, judge
from feddecorr.studies.claims.claim import Claim, judge_trials
from feddecorr.studies.claims.duels import runs_of
from feddecorr.studies.claims.other_claims import computation, proposition, theorem
from feddecorr.studies.study import Arm
from feddecorr.studies.summary import Summary

BASE = (0.50, 0.52, 0.51)
CLEAR, NONE, WORSE, UNSURE = (0.04, 0.05, 0.06), (0.0, 0.001, -0.001), (-0.04, -0.05, -0.06), (0.2, -0.15, 0.04)


def judged(number: int, summaries: Sequence[Summary]) -> Claim:
    sentence, study, trials = MEASURED[number]
    return judge_trials(number, sentence, trials(runs_of(summaries)), study)


def pair(words: str, gains: Sequence[float], **others: float) -> list[Summary]:
    """Return three runs without FedDecorr and three with it, that gain so much."""
    beside = [base + gain for base, gain in zip(BASE, gains, strict=False)]
    return [
        *over_seeds(f"{words} regularizers=none", BASE[: len(beside)], **others),
        *over_seeds(f"{words} regularizers=feddecorr", beside, **others),
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
            rank=4.0 if local else value + spread * (seed - 1),
            local_rank=value + spread * (seed - 1) if local else None,
        )
        for alpha, value in zip((0.01, 0.05, 0.25, "inf"), values, strict=True)
        for seed in range(3)
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


def betas(low: Sequence[float], high: Sequence[float]) -> list[Summary]:
    changes = {0.05: low, 0.1: (0.0, 0.0, 0.0), 0.2: high}
    return [
        run
        for beta, change in changes.items()
        for run in over_seeds(
            f"regularizers=feddecorr regularizers.feddecorr.beta={beta}",
            [base + more for base, more in zip(BASE, change, strict=True)],
        )
    ]


def decov(*gains: Sequence[float]) -> list[Summary]:
    runs = over_seeds("regularizers=none", BASE)
    for (name, weight), gain in zip(product(("decov", "structured_decov"), (0.001, 0.1)), gains, strict=True):
        values = [base + more for base, more in zip(BASE, gain, strict=True)]
        runs += over_seeds(f"regularizers={name} regularizers.{name}.weight={weight}", values)
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
    """Return runs whose clients' models have a rank so many times that of the average."""
    return [summary(f"seed={seed}", rank=4.0, local_rank=4 * factor) for seed, factor in enumerate(factors)]


EVIDENCE: dict[int, tuple[list[Summary], list[Summary], list[Summary]]] = {
    1: (ranks(2, 3, 4, 6), ranks(6, 4, 3, 2), ranks(2, 3, 4, 2, spread=1.5)),
    2: (ranks(2, 3, 4, 6, local=True), ranks(6, 4, 3, 2, local=True), ranks(2, 3, 4, 2, local=True, spread=1.5)),
    3: (tails(2, 2.2, 1.9), tails(0.5, 0.45, 0.55), tails(0.5, 2.5, 1.4)),
    4: (alphas(CLEAR, NONE), alphas(CLEAR, CLEAR), alphas(UNSURE, NONE)),
    5: (methods(CLEAR, NONE), methods(WORSE, NONE), methods(UNSURE, NONE)),
    6: (
        pair("partition.alpha=inf", NONE),
        pair("partition.alpha=inf", WORSE),
        pair("partition.alpha=inf", UNSURE),
    ),
    7: (
        clients(NONE, CLEAR, (0.1, 0.11, 0.12)),
        clients(CLEAR, CLEAR, CLEAR),
        clients(NONE, CLEAR, UNSURE),
    ),
    8: (betas(NONE, NONE), betas(NONE, WORSE), betas(NONE, UNSURE)),
    9: (epochs(CLEAR, CLEAR, CLEAR), epochs(CLEAR, WORSE, CLEAR), epochs(CLEAR, CLEAR, UNSURE)),
    10: (decov(WORSE, NONE, NONE, WORSE), decov(WORSE, CLEAR, NONE, WORSE), decov(WORSE, NONE, UNSURE, WORSE)),
    11: (widths(NONE, CLEAR, (0.1, 0.11, 0.12)), widths(CLEAR, CLEAR, NONE), widths(NONE, UNSURE, UNSURE)),
    12: (classes(CLEAR, CLEAR), classes(NONE, CLEAR), classes(CLEAR, UNSURE)),
    13: (curves(8, (4, 5, 4)), curves(5, (8, 9, 8)), curves(5, (2, 9, 5))),
    15: (terms(0.5, 0.6, 0.55), terms(3.0, 3.5, 4.0), terms(0.5, 4.0, 1.2)),
    18: (averaged(2.0, 2.2, 1.9), averaged(0.5, 0.6, 0.55), averaged(0.4, 2.5, 1.2)),
}
"""Records from which the claim holds, does not hold, and cannot be told."""


@pytest.mark.parametrize("number", MEASURED)
@pytest.mark.parametrize(("place", "verdict"), [(0, "holds"), (1, "does not hold"), (2, "not measured")])
def test_every_claim_can_hold_and_fail_and_stay_open(number: int, place: int, verdict: str) -> None:
    """With three seeds each; what is open says how many would be needed, what is decided says nothing of it."""
    claim = judged(number, EVIDENCE[number][place])
    assert claim.verdict == verdict, claim
    assert claim.seeds == 3
    assert claim.interval is not None
    assert claim.commands
    assert (claim.needed is None) == (verdict != "not measured")
    assert claim.needed is None or claim.needed > 3


def test_of_each_number_of_local_epochs_the_longest_runs_count() -> None:
    """Whatever shorter runs say, and in any order."""
    short = pair("training.epochs=5 rounds=11", WORSE)
    assert judged(9, [*EVIDENCE[9][0], *short]).verdict == judged(9, [*short, *EVIDENCE[9][0]]).verdict == "holds"


@pytest.mark.parametrize("scale", ["small", "many"])
@pytest.mark.parametrize("number", [7, 9, 11, 12])
def test_all_runs_of_the_study_that_answers_a_claim_are_one_setting(number: int, scale: str) -> None:
    """Though rounds, and those over which the learning rate falls, go with clients and local epochs."""
    _, study, trials = MEASURED[number]
    arms = STUDIES[study].arms(scale, seeds=3)
    made = [Summary.from_dict({**summary(arm.experiment).to_dict(), "spectrum": spectrum(arm)}) for arm in arms]
    (trial,) = trials(runs_of(made))
    assert len(trial.runs) == len(arms)
    assert all(len(part.sample) == 3 for part in trial.parts)


def spectrum(arm: Arm) -> list[float]:
    """Return one that tells networks of different widths apart."""
    return [1.0] * {"narrow": 8, "middle": 16, "wide": 32}.get(str(arm.labels.get("model")), 16)


@pytest.mark.parametrize("number", MEASURED)
@pytest.mark.parametrize("place", [0, 1])
def test_two_seeds_are_too_few_for_either_verdict(number: int, place: int) -> None:
    """Whatever they say."""
    few = [run for run in EVIDENCE[number][place] if run.experiment["seed"] < 2]
    claim = judged(number, few)
    assert claim.verdict == "not measured"
    assert claim.needed is not None
    assert claim.needed >= 3


@pytest.mark.parametrize("number", MEASURED)
def test_without_records_a_claim_names_the_study_that_answers_it(number: int) -> None:
    """As a command."""
    claim = judged(number, [])
    assert claim.verdict == "not measured"
    assert claim.commands == [f"feddecorr reproduce {MEASURED[number][1]} --scale small --seeds 3"]


@pytest.mark.parametrize("number", MEASURED)
def test_the_order_of_records_changes_nothing(number: int) -> None:
    """Nor do other records beside them that cannot answer the claim."""
    runs = EVIDENCE[number][0]
    other = over_seeds("method=fednova data=mnist", BASE)
    assert judged(number, [*other, *reversed(runs)]).to_dict() == judged(number, runs).to_dict()


@pytest.mark.parametrize("number", [1, 2, 3, 18])
def test_of_two_records_of_a_run_the_one_that_tells_of_clients_models_counts(number: int) -> None:
    """In any order; the other was done for a question that does not ask for them."""
    full = EVIDENCE[number][0]
    lean = [Summary.from_dict({**run.to_dict(), "digest": f"lean {run.digest}", "local_models": {}}) for run in full]
    for runs in ([*full, *lean], [*lean, *full]):
        assert judged(number, runs).numbers == judged(number, full).numbers


SIGNED: dict[int, Callable[[Sequence[float]], list[Summary]]] = {
    4: lambda gains: alphas(gains, NONE),
    9: lambda gains: epochs(gains, gains, gains),
    12: lambda gains: classes(gains, gains),
}


@pytest.mark.parametrize("number", SIGNED)
def test_the_same_rule_holds_for_both_arms(number: int) -> None:
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
        assert judged(6, runs).numbers == {}


def test_the_setting_with_the_most_seeds_decides_and_others_are_told() -> None:
    """Whatever they say."""
    more = [
        *over_seeds("partition.alpha=inf regularizers=none", [*BASE, 0.5]),
        *over_seeds("partition.alpha=inf regularizers=feddecorr", [*BASE, 0.5]),
    ]
    other = pair("partition.alpha=inf data.train=5000", WORSE)
    claim = judged(6, [*other, *more])
    assert (claim.verdict, claim.seeds) == ("holds", 4)
    assert [(each["verdict"], each["setting"]) for each in claim.elsewhere] == [("does not hold", "data.train=5000")]


def test_of_equal_settings_the_same_decides_in_any_order() -> None:
    """Two networks with as many seeds, runs and images."""
    runs = [*pair("partition.alpha=inf", NONE), *pair("partition.alpha=inf model=resnet20", WORSE)]
    claim = judged(6, runs)
    assert claim.to_dict() == judged(6, runs[::-1]).to_dict()
    assert len(claim.elsewhere) == 1


def test_another_strength_of_the_loss_decides_only_where_the_papers_is_not_there() -> None:
    """The claim is about beta 0.1."""
    weak = [
        *over_seeds("partition.alpha=inf", [0.5] * 5),
        *over_seeds("partition.alpha=inf regularizers=feddecorr regularizers.feddecorr.beta=1", [0.3] * 5),
    ]
    papers = over_seeds("partition.alpha=inf regularizers=feddecorr", [0.5] * 3)
    assert judged(6, weak).verdict == "does not hold"
    assert judged(6, [*weak, *papers]).verdict == "holds"


def costs(step: float, ours: float) -> list[dict[str, Any]]:
    return [
        {"command": "a", "ratio to plain": {"feddecorr": step}},
        {"command": "b", "ratio to FedAvg": {"fedavg with feddecorr": ours, "fedprox": 1.0, "moon": 1.5}},
    ]


def test_computation_is_judged_by_recorded_costs() -> None:
    """It holds, it does not for either reason, and without records it is not measured."""
    assert computation(14, "", costs(1.01, 1.09)).verdict == "holds"
    assert computation(14, "", costs(1.01, 1.09)).commands == ["a", "b"]
    assert computation(14, "", costs(1.04, 1.0)).verdict == "does not hold"
    assert computation(14, "", costs(1.01, 1.11)).verdict == "does not hold"
    assert computation(14, "", costs(1.01, 1.09)[:1]).verdict == "not measured"


def test_the_theory_is_checked_on_the_spot() -> None:
    """Theorem 1 with the G of its proof, and Proposition 1; as printed, the theorem is far off."""
    found = theorem(16, "")
    assert found.verdict == "holds"
    assert found.numbers["largest relative error"] < 1e-6
    assert found.numbers["total error at the end with G as printed"]["largest"] > 0.5
    assert proposition(17, "").verdict == "holds"


def test_all_eighteen_are_answered_and_ready_for_json() -> None:
    """In their order, with the same keys."""
    everything = [run for number in EVIDENCE for run in EVIDENCE[number][0]]
    found = judge(everything, costs(1.0, 1.0))
    assert [claim.number for claim in found] == list(range(1, 19))
    documents = json.loads(json.dumps([claim.to_dict() for claim in found], allow_nan=False))
    assert {"claim", "verdict", "numbers", "seeds", "interval", "commands", "needed"} <= documents[0].keys()
    assert all(document.keys() == documents[0].keys() for document in documents)
