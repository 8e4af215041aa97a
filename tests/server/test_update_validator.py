from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from small import digest, result, simulate, small

from feddecorr.core.messages import Broadcast, Failure, Update
from feddecorr.core.states import State
from feddecorr.errors import RunError
from feddecorr.runs.pipeline import resume, run
from feddecorr.server.federation import Roster
from feddecorr.server.validation import ExpectedUpdates, Missing, UpdateValidator

WEIGHTS: State = {"w": torch.ones(2, 3), "b": torch.zeros(3, dtype=torch.float64)}
BUFFERS: State = {"count": torch.tensor(4)}
EXTRA: State = {"change": torch.zeros(2)}


def update(client: int = 1) -> Update:
    """Return a fair update of round 5."""
    return Update(5, client, 10, 0.5, dict(WEIGHTS), dict(BUFFERS), dict(EXTRA), {"cross_entropy": 1.0})


def expected(weights: State, buffers: State, extra: State) -> ExpectedUpdates:
    """Return what a server of four clients with ten examples each expects in round 5."""
    federation = replace(simulate().federation, roster=Roster(np.full(4, 10)))
    return ExpectedUpdates(federation, Broadcast(5, weights, buffers, {}), extra)


def take(
    *answers: Update | Failure, missing: Missing = "fail", minimum: int = 1
) -> tuple[list[Update], UpdateValidator]:
    """Take the answers of clients 1 and 2."""
    validator = UpdateValidator(expected(WEIGHTS, BUFFERS, EXTRA), [1, 2], missing=missing, minimum=minimum)
    return list(validator.validate(answers)), validator


def test_fair_updates_pass_unchanged() -> None:
    sent = [update(1), update(2)]
    taken, validator = take(*sent)
    assert [(each.client, digest(each.weights)) for each in taken] == [(1, digest(WEIGHTS)), (2, digest(WEIGHTS))]
    assert validator.missing == {}


WRONG: dict[str, tuple[Callable[[Update], Update], str]] = {
    "another round": (lambda sent: replace(sent, round=4), "for round 4"),
    "the mean of several": (lambda sent: replace(sent, merged_clients=[2]), "also for other clients"),
    "a stranger": (lambda sent: replace(sent, client=3), "client 3 .* not asked"),
    "no examples": (lambda sent: replace(sent, examples=0), "examples=0, not a whole number from 1 to 10"),
    "no amount": (lambda sent: replace(sent, amount=float("nan")), "amount=nan"),
    "a term that is not finite": (lambda sent: replace(sent, metrics={"cross_entropy": float("inf")}), "inf"),
    "a weight is missing": (lambda sent: replace(sent, weights={"w": WEIGHTS["w"]}), "missing: b"),
    "an unknown weight": (lambda sent: replace(sent, weights={**WEIGHTS, "x": torch.ones(1)}), "unknown: x"),
    "another shape": (lambda sent: replace(sent, weights={**WEIGHTS, "w": torch.ones(3, 2)}), r"w \(3, 2\) in place"),
    "another type": (lambda sent: replace(sent, buffers={"count": torch.tensor(4.0)}), "count torch.float32"),
    "NaN": (lambda sent: replace(sent, weights={**WEIGHTS, "w": torch.full((2, 3), torch.nan)}), "NaN or infinity"),
    "infinity": (lambda sent: replace(sent, extra={"change": torch.tensor([0, -torch.inf])}), "extra hold NaN"),
    "infinities that cancel": (
        lambda sent: replace(sent, weights={**WEIGHTS, "w": torch.tensor([[torch.inf, -torch.inf, 0]] * 2)}),
        "NaN or infinity",
    ),
    "an extra that was not announced": (lambda sent: replace(sent, extra={**EXTRA, "more": torch.ones(1)}), "more"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_refused_with_the_client_and_the_reason(name: str) -> None:
    """Under `fail` it ends the run; under `continue` the round continues with the others."""
    spoil, reason = WRONG[name]
    with pytest.raises(RunError, match=f"client . failed in round 5: .*{reason}" if "client" not in reason else reason):
        take(spoil(update(1)), update(2))
    taken, validator = take(spoil(update(1)), update(2), missing="continue")
    assert [each.client for each in taken] == [2]
    assert list(validator.missing) == [1]


def test_a_second_update_of_a_client_does_not_count() -> None:
    """The first one does, and nobody is missing."""
    with pytest.raises(RunError, match="client 1 failed in round 5: it sent a second update"):
        take(update(1), update(1), update(2))
    taken, validator = take(update(1), update(1), update(2), missing="continue")
    assert [each.client for each in taken] == [1, 2]
    assert validator.missing == {}


def test_what_was_refused_in_a_clients_name_is_forgotten_when_its_own_update_comes() -> None:
    taken, validator = take(replace(update(1), examples=0), update(1), update(2), missing="continue")
    assert [each.client for each in taken] == [1, 2]
    assert validator.missing == {}


def test_who_sends_nothing_is_missing() -> None:
    with pytest.raises(RunError, match="client 2 failed in round 5: it sent nothing"):
        take(update(1))
    assert take(update(1), missing="continue")[1].missing == {2: "it sent nothing"}


def test_a_failure_is_reported_with_the_clients_own_traceback() -> None:
    with pytest.raises(RunError, match="client 2 failed in round 5: KeyError: 'x'") as caught:
        take(update(1), Failure(5, 2, "KeyError: 'x'", "Traceback: line 7"))
    assert "Traceback: line 7" in str(caught.value.__cause__)


@pytest.mark.parametrize("minimum", [1, 2])
def test_a_round_with_too_few_updates_is_an_error(minimum: int) -> None:
    answers: list[Any] = [update(1)] * (minimum - 1)
    with pytest.raises(RunError, match=f"round 5 has {minimum - 1} updates from 2 .*minimum_clients={minimum}.*cut"):
        take(*answers, Failure(5, 2, "the line was cut"), missing="continue", minimum=minimum)


def test_tensors_are_laid_out_as_they_were_sent() -> None:
    """Whatever a message made of their memory format: sums over them must not depend on it."""
    validator = UpdateValidator(expected({"w": torch.ones(3, 2).T}, {}, {}), [1], missing="fail", minimum=1)
    sent = replace(update(1), weights={"w": torch.rand(2, 3)}, buffers={}, extra={})
    (taken,) = validator.validate([sent])
    assert taken.weights["w"].stride() == (1, 2)
    assert torch.equal(taken.weights["w"], sent.weights["w"])


@pytest.mark.parametrize("engine", ["serial", "pool"])
def test_a_model_that_ends_infinite_is_never_committed(tmp_path: Any, engine: str) -> None:
    """Also in a round that is not evaluated: the run can be resumed from the round before."""
    words = ["method=outside:Diverging", "evaluation.every=100", f"engine={engine}"]
    records = run(*small(*words), tmp_path / "run")
    next(records)
    with pytest.raises(RunError, match="client 1 failed in round 2: its weights hold NaN or infinity"):
        next(records)
    with pytest.raises(RunError, match="client 1 failed in round 2"):
        next(resume(tmp_path / "run", trust=True))


@pytest.mark.parametrize("engine", ["serial", "pool"])
@pytest.mark.parametrize("method", ["Diverging", "Failing"])
def test_a_run_goes_on_without_a_client_if_it_is_reported_to(engine: str, method: str) -> None:
    """Who was missing, and why, is in the round's record; the others count as if they had been alone."""
    words = [f"method=outside:{method}", "missing=continue", f"engine={engine}"]
    records = list(run(*small(*words)))
    assert [list(record.missing) for record in records] == [[], [1], []]
    assert [sorted(record.clients) for record in records] == [[0, 1, 2, 3]] * 3
    assert (
        records[1]
        .missing[1]
        .startswith("its weights hold NaN" if method == "Diverging" else "ZeroDivisionError: on purpose")
    )
    assert result(records) == result(run(*small(*words[:2])))
    with pytest.raises(RunError, match="fewer than minimum_clients=4"):
        list(run(*small(*words, "minimum_clients=4")))


@pytest.mark.parametrize("engine", ["serial", "pool"])
def test_every_update_is_taken_also_if_the_method_reads_one_only(engine: str) -> None:
    """Terms and statistics are those of all clients, and the next round begins with nothing left over."""
    words = ["method=outside:Impatient", "rounds=4", "clients=6", "partition.minimum=2"]
    expected = result(run(*small(*words)))
    assert result(run(*small(*words, f"engine={engine}"))) == expected
    (alone,) = run(*small(*words, "rounds=1"))
    (average,) = run(*small(*words[2:], "rounds=1"))
    assert alone.terms == average.terms
    assert all(torch.equal(alone.state[name], average.state[name]) for name in alone.state if "running" in name)


def test_the_servers_hooks_are_reported_round_seed_and_sizes(tmp_path: Any) -> None:
    from safetensors.torch import load_file  # noqa: PLC0415 - only here

    list(run(*small("method=outside:HookCalls", "seed=7"), tmp_path / "run"))
    kept = load_file(tmp_path / "run" / "server" / "3.safetensors")
    assert int(kept["memory/round"]) == 3
    assert int(kept["memory/seed"]) == 7
    assert int(kept["memory/sizes"].sum()) == 120


def test_what_a_client_draws_at_the_end_has_a_name_too() -> None:
    """The same numbers from every engine and whatever was drawn before."""
    torch.manual_seed(5)
    expected = result(run(*small("method=outside:Drawing")))
    assert result(run(*small("method=outside:Drawing", "engine=pool", "engine.workers=2"))) == expected
