from dataclasses import replace
from pathlib import Path

import pytest
import torch
from beside import MLP, Neighbours
from outside import Exploding
from small import small

from feddecorr.core.messages import Update
from feddecorr.core.states import STATISTICS, Mean, State
from feddecorr.errors import UserError
from feddecorr.methods import METHODS
from feddecorr.runs.diagnosis import Wanted, examine
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import run

CONVNET = "data.size=8 model=convnet model.widths=[6,8]"
SIDE_BY_SIDE = "training.clients_per_batch=2"
MERGED = f"{SIDE_BY_SIDE} training.pre_aggregate=true"


def largest_gap(one: State, other: State) -> float:
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "partition=homogeneous",
        "training.max_grad_norm=0.5",  # where no layer is trained in the span
        "model.widths=[]",
        "regularizers=feddecorr,decov model=beside_networks:frozen",
        CONVNET,
        f"{CONVNET} batchnorm=pooled",
        f"{CONVNET} method=fedprox",
    ],
)
def test_a_merged_update_is_the_mean_in_all_that_it_holds(words: str) -> None:
    apart = Neighbours(*words.split(), SIDE_BY_SIDE, wide=True)
    merged = Neighbours(*words.split(), *MERGED.split(), wide=True).together(range(4))
    each = [update for update, _ in apart.together(range(4)).values()]
    (whole,) = {id(update): update for update, _ in merged.values()}.values()
    weights, buffers = Mean(), STATISTICS[apart.simulation.task.experiment.batchnorm]()
    for update in each:
        weights.add(update.weights, update.examples)
        buffers.add(update.buffers, update.examples)
    assert sorted(whole.clients) == [0, 1, 2, 3]
    assert whole.examples == sum(update.examples for update in each)
    assert largest_gap(whole.weights, weights.value) < 1e-12
    assert not buffers.value or largest_gap(whole.buffers, buffers.value) < 1e-12
    for name, value in whole.metrics.items():
        assert value == pytest.approx(by_examples(each, [update.metrics[name] for update in each]), abs=1e-12)
    assert whole.amount == pytest.approx(by_examples(each, [update.amount for update in each]), abs=1e-12)


def by_examples(updates: list[Update], values: list[float]) -> float:
    examples = [update.examples for update in updates]
    return sum(value * count for value, count in zip(values, examples, strict=True)) / sum(examples)


@pytest.mark.parametrize("name", [name for name, kind in METHODS.table.items() if not kind.needs_each()])
def test_methods_that_need_the_mean_alone_do_the_same_with_it(name: str) -> None:
    words = [*MLP, "training.lr=0.001", f"method={name}", "training.clients_per_batch=auto"]
    *_, apart = run(*small(*words))
    *_, merged = run(*small(*words, "training.pre_aggregate=true"))
    assert largest_gap(apart.state, merged.state) < 1e-4
    assert merged.terms == pytest.approx(apart.terms, rel=1e-4)


def test_most_methods_need_the_mean_alone_and_those_with_a_memory_do_not() -> None:
    more = {name for name, kind in METHODS.table.items() if kind.needs_each()}
    assert {"scaffold", "feddyn", "moon", "fednova", "fedexp"} <= more
    assert not more & {"fedavg", "fedprox", "fedavgm", "fedadam", "fedacg", "fedntd"}


def test_one_who_diverges_is_missed_by_name_and_the_others_count() -> None:
    words = [*MLP, "method=outside:Exploding", "missing=continue", "rounds=2"]
    *_, apart = run(*small(*words, SIDE_BY_SIDE))
    *_, merged = run(*small(*words, *MERGED.split()))
    assert not Exploding.needs_each()
    assert list(merged.missing) == [1]
    assert "became" in merged.missing[1]
    assert merged.missing == apart.missing
    assert largest_gap(apart.state, merged.state) < 1e-5


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("training.clients_per_batch=1", "one by one"),
        ("method=scaffold", "SCAFFOLD needs more"),
        ("method=moon", "MOON needs more"),
        ("transforms=clip", "transforms=clip"),
        ("batchnorm=local", "batchnorm=local"),
        ("evaluation.clients=true", "evaluation.clients"),
        ("evaluation.epochs=true", "evaluation.epochs"),
    ],
)
def test_whoever_needs_each_client_refuses_a_mean_by_name(words: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"training.pre_aggregate=true cannot be: .*{reason}"):
        next(run(*small(*MLP, *MERGED.split(), *words.split()), tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_clients_of_a_merged_round_can_still_be_looked_at(tmp_path: Path) -> None:
    """Each is trained again by itself; the average of all is the global model, but for rounding."""
    *_, last = run(*small(*MLP, *MERGED.split()), tmp_path / "run")
    directory = RunDirectory.open(tmp_path / "run")
    found = examine(directory, Wanted(local=True, averaging=True), "run", lambda _: None)
    assert [each.client for each in found.diagnoses] == [None, 0, 1, 2, 3]
    assert found.averaging is not None
    assert last.model is not None
    assert found.averaging.averaging.averaged_effective_rank == pytest.approx(last.model.effective_rank, rel=1e-4)


def test_the_mean_of_one_is_that_one_to_the_last_bit() -> None:
    one = Neighbours(SIDE_BY_SIDE).together([2])[2][0]
    merged = Neighbours(*MERGED.split()).together([2])[2][0]
    assert replace(merged, weights={}) == replace(one, weights={})
    assert all(torch.equal(one.weights[name], weight) for name, weight in merged.weights.items())
