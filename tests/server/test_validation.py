"""Whatever a client sends, the run goes on without it, says why, and can be read again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small import result, small
from spoilt import Spoil, Spoilt

from feddecorr.core.checks import LARGEST
from feddecorr.core.evidence import Evidence
from feddecorr.core.messages import Broadcast, Failure, Update
from feddecorr.core.states import State
from feddecorr.core.text import parse_json
from feddecorr.errors import RunError
from feddecorr.methods import METHODS
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import resume, run
from feddecorr.server.federation import Simulation
from feddecorr.server.rounds import federate


def fields(**changes: Any) -> Spoil:
    """Replace fields of the update."""
    return lambda update: replace(update, **changes)


def first(section: str, change: Any, name: str = "") -> Callable[[Update], Update]:
    """Replace the first tensor of a section whose name has this end."""

    def spoil(update: Update) -> Update:
        state: dict[str, Any] = dict(getattr(update, section))
        found = next(each for each in state if each.endswith(name))
        state[found] = change(state[found])
        return Update(**{**vars(update), section: state})

    return spoil


def evidence(width: int = 16, **changes: Any) -> Spoil:
    """Send what no samples have, or samples of another width."""
    found = Evidence.of(torch.nn.Sequential(torch.nn.Linear(3, width), torch.nn.Linear(width, 2)), [torch.randn(9, 3)])
    return fields(evidence={**found.to_state(), **changes})


def named(name: str) -> Spoil:
    """Add a tensor of that name."""
    return lambda update: replace(update, weights={**update.weights, name: torch.zeros(1)})


WRONG: dict[str, tuple[Spoil, str]] = {
    "half a character in a note": (fields(note="\ud800"), "note"),
    "a control character in a note": (fields(note="\x1b[2J"), "note"),
    "a long note": (fields(note="a" * 10_000_000), "note"),
    "a note that is no text": (fields(note=5), "note"),
    "a large term": (fields(metrics={"cross_entropy": 1e308}), "metrics.cross_entropy=1e.308"),
    "a term that is no number": (fields(metrics={"cross_entropy": "1"}), "metrics.cross_entropy='1'"),
    "a term that is not of the objective": (fields(metrics={"cross_entropy": 1.0, "mine": 1.0}), "metrics.*'mine'"),
    "a term's name that cannot be written": (fields(metrics={"\ud800": 1.0}), "metrics"),
    "terms that are no table": (fields(metrics=[1.0]), "metrics"),
    "more examples than a float holds": (fields(examples=10**400), "examples"),
    "more examples than Python prints": (fields(examples=10**5000), "examples"),
    "more examples than the roster says": (fields(examples=10**12), "examples=1000000000000"),
    "half an example": (fields(examples=1.5), "examples=1.5"),
    "a truth for a number": (fields(examples=True), "examples=True"),
    "text for a number": (fields(examples="7"), "examples='7'"),
    "far more work than its steps": (fields(amount=1e6), "amount=1000000.0"),
    "nearly no work": (fields(amount=1e-300), "amount=1e-300"),
    "NaN in an epoch": (fields(epochs={"cross_entropy": [1.0, torch.nan]}), "epochs.cross_entropy.1=nan"),
    "many epochs": (fields(epochs={"cross_entropy": [1.0] * 2_000_000}), "epochs.cross_entropy"),
    "an epoch's term that is not of the objective": (fields(epochs={"x": [1.0, 1.0]}), "epochs.*'x'"),
    "weights whose sum is infinite": (first("weights", lambda w: w.fill_(3e38)), "3e.38"),
    "weights whose square is infinite": (first("weights", lambda w: w.fill_(-1e20)), "1e.20"),
    "a negative variance": (first("buffers", lambda b: b.fill_(-1.0), "running_var"), "running_var"),
    "a negative counter": (first("buffers", lambda b: b.fill_(-1), "num_batches_tracked"), "num_batches_tracked"),
    "a full counter": (first("buffers", lambda b: b.fill_(2**63 - 1), "num_batches_tracked"), "num_batches_tracked"),
    "a sparse tensor": (first("weights", lambda w: w.to_sparse()), "weights"),
    "a complex tensor": (first("weights", lambda w: w.to(torch.complex64)), "weights"),
    "a quantized tensor": (first("weights", lambda w: torch.quantize_per_tensor(w, 0.1, 0, torch.qint8)), "weights"),
    "a tensor without numbers": (first("weights", lambda w: w.to("meta")), "weights"),
    "nested tensors": (first("weights", lambda w: torch.nested.nested_tensor([w, w])), "weights"),
    "a list for a tensor": (first("weights", lambda w: w.tolist()), "weights"),
    "no table of tensors": (fields(weights=None), "weights"),
    "a name with control characters": (named("\x1b[2J\ud800"), "weights"),
    "ten thousand names": (lambda u: replace(u, weights={str(n): torch.zeros(1) for n in range(10_000)}), "weights"),
    "evidence of another width": (evidence(width=5), "evidence.* 5 .*16"),
    "evidence that cannot be squared": (evidence(mean=torch.full((16,), 1e150, dtype=torch.float64)), "evidence"),
    "evidence that is no tensor": (evidence(mean=[1.0]), "evidence"),
    "evidence without a shape": (evidence(mean=torch.tensor(1.0, dtype=torch.float64)), "evidence"),
    "other clients' updates that are no numbers": (fields(merged_clients=["2"]), "merged_clients"),
    "a cause with half a character": (lambda u: Failure(u.round, u.client, "\ud800 and \x1b[2J" + "a" * 10**6), "and"),
}  # fmt: skip

WORDS = ["rounds=2", "training.batch=64", "evaluation.epochs=true", "missing=continue"]


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor", "ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("name", WRONG)
def test_who_sends_what_cannot_be_is_missing_and_the_run_goes_on(name: str, tmp_path: Path) -> None:
    """The others count as if they had been alone; the reason is short and printable, and every line can be read."""
    spoil, reason = WRONG[name]
    experiment, options = small(*WORDS)
    found = list(run(experiment, options, tmp_path / "run", through=Spoilt(experiment, {1: spoil}, options.evaluation)))
    assert [list(record.missing) for record in found] == [[1], [1]]
    why = found[0].missing[1]
    assert why.isprintable()
    assert len(why) <= 500
    expected = result(
        run(
            experiment,
            options,
            through=Spoilt(experiment, {1: lambda sent: Failure(sent.round, 1, why)}, options.evaluation),
        )
    )
    assert result(found) == expected
    for line in (tmp_path / "run" / "rounds.jsonl").read_bytes().splitlines():
        parse_json(line)
    assert [record.missing for record in RunDirectory.open(tmp_path / "run").rounds()] == [{1: why}] * 2
    further, further_options = small(*WORDS, "rounds=3")
    assert len(list(resume(tmp_path / "run", further, further_options))) == 1
    assert re.search(reason, why), why


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor", "ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("name", WRONG)
def test_without_leave_to_go_on_the_run_ends_with_a_sentence(name: str, tmp_path: Path) -> None:
    experiment, options = small("training.batch=64")
    with pytest.raises(RunError, match="client 1 failed in round 1: ") as caught:
        list(
            run(
                experiment,
                options,
                tmp_path / "run",
                through=Spoilt(experiment, {1: WRONG[name][0]}, options.evaluation),
            )
        )
    assert str(caught.value).isprintable()


FAIR = {
    "expanded": first("weights", lambda w: w[:1].expand_as(w)),
    "on a graph": first("weights", lambda w: w.clone().requires_grad_()),
    "a parameter": first("weights", torch.nn.Parameter),
    "turned": first("weights", lambda w: w.transpose(-1, -2).contiguous().transpose(-1, -2)),
}


@pytest.mark.parametrize("name", FAIR)
def test_a_state_counts_by_its_numbers_however_it_lies_in_memory(name: str) -> None:
    experiment, options = small(*WORDS)
    changed = FAIR[name]

    def plain(sent: Update) -> Update:
        copies = {
            name: each.detach().clone(memory_format=torch.contiguous_format)
            for name, each in changed(sent).weights.items()
        }
        return replace(sent, weights=copies)

    assert result(run(experiment, options, through=Spoilt(experiment, {1: changed}))) == result(
        run(experiment, options, through=Spoilt(experiment, {1: plain}))
    )


@pytest.mark.parametrize("name", METHODS.table)
def test_the_largest_updates_that_count_leave_every_server_finite(name: str) -> None:
    """Sums, squares and products of them, by every method, with little and much work, of one sign and of both."""
    experiment = small(f"method={name}", "rounds=6").experiment
    federation = Simulation(experiment).federation
    sizes = federation.roster.sizes

    def largest(broadcast: Broadcast, clients: Sequence[int]) -> Iterator[Update]:
        extra = experiment.method.expected_extra(federation.start(), federation.info(broadcast.round))
        for client in clients:
            sign = -1 if broadcast.round > 3 and (client + broadcast.round) % 2 else 1

            def full(state: State, sign: int = sign) -> State:
                return {name: torch.full_like(each, sign * LARGEST) for name, each in state.items()}

            buffers = {name: torch.full_like(each, 1e12).abs() for name, each in broadcast.buffers.items()}
            amount = 0.05 if client % 2 else 0.05 * sizes[client] / 16 * 2
            amount = max(0.05, amount // 1 * 0.05)
            yield Update(
                broadcast.round, client, int(sizes[client]), amount, full(broadcast.weights), buffers, full(extra), {}
            )

    for now in federate(federation.start(), federation, largest, rounds=range(1, 7)):
        assert now.missing == {}
        for state in vars(now.server).values():
            assert all(bool(tensor.isfinite().all()) for tensor in state.values())


def test_examples_are_no_more_than_the_roster_says_and_may_be_fewer() -> None:
    experiment, options = small(*WORDS)
    fewer = Spoilt(experiment, {1: lambda sent: replace(sent, examples=1)})
    assert [record.missing for record in run(experiment, options, through=fewer)] == [{}, {}]


@pytest.mark.parametrize("name", METHODS.table)
def test_every_method_names_its_terms(name: str) -> None:
    """All that honest clients send are among them, so that what is not can be refused."""
    method = METHODS.parse({"name": name})
    known = method.known_terms()
    assert known is not None
    (record,) = run(*small(f"method={name}", "rounds=1", "model.projection=8" if name == "moon" else "rounds=1"))
    assert record.missing == {}
    assert set(record.terms) <= {"cross_entropy", *known}
    assert set(known) <= set(record.terms)


def test_a_model_that_cannot_be_evaluated_costs_its_evaluation_alone(tmp_path: Path) -> None:
    """A client's own, on the server's images: the round goes on, and the record says why there is none."""
    words = ["missing=continue", "transforms=median", "evaluation.clients=true", "evaluation.every=1", "rounds=2"]
    experiment, options = small(*words)
    large = first("weights", lambda w: w.fill_(1e12), "classifier.weight")
    found = list(run(experiment, options, tmp_path / "run", through=Spoilt(experiment, {1: lambda u: large(_huge(u))})))
    assert [sorted(record.local_models) for record in found] == [[0, 2, 3]] * 2
    assert all("evaluated" in record.notes[1] for record in found)
    assert [record.notes for record in RunDirectory.open(tmp_path / "run").rounds()] == [each.notes for each in found]


def _huge(update: Update) -> Update:
    return replace(update, weights={name: torch.full_like(each, 1e12) for name, each in update.weights.items()})


def test_a_server_that_ends_infinite_says_when_what_helps_and_who_stands_out(tmp_path: Path) -> None:
    experiment, options = small("method=outside:Cubing", "missing=continue", "evaluation.every=9")
    with pytest.raises(RunError, match=r"round 1.*NaN or infinity.*client 1 .*1e\+12.*transforms"):
        list(run(experiment, options, tmp_path / "run", through=Spoilt(experiment, {1: _huge})))


def test_networks_with_tied_and_other_buffers_pass() -> None:
    assert all(record.missing == {} for record in run(*small("model=outside:Tied", "missing=continue")))
    assert all(record.missing == {} for record in run(*small("model=outside:Half", "missing=continue")))
