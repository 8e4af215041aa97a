from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest
from beside import MLP
from small import digest, result, simulate, small

from feddecorr.core.client_memory import Memories
from feddecorr.errors import UserError
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import resume, run
from feddecorr.server.federation import Federation, RunClients, Simulation

REFUSED = [
    ("model=beside_networks:dropped", "'2' draws random numbers"),
    ("model=beside_networks:hooked", "'1' has a hook"),
    ("method=fedsam", "FedSAM takes its gradients by itself"),
    ("method=fedsol", "FedSOL takes its gradients by itself"),
    ("training.precision=bf16", "training.precision=bf16"),
]


@pytest.mark.parametrize(("words", "reason"), REFUSED)
def test_what_cannot_be_is_refused_by_name_before_any_work(words: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"training.clients_per_batch=3 cannot be: .*{reason}.*clients_per_batch=1 is"):
        next(run(*small(*MLP, *words.split(), "training.clients_per_batch=3"), tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("words", "reason"), REFUSED)
def test_under_auto_it_is_trained_one_by_one_and_the_reason_recorded(words: str, reason: str, tmp_path: Path) -> None:
    (record,) = run(*small(*MLP, *words.split(), "rounds=1", "training.clients_per_batch=auto"), tmp_path / "run")
    (alone,) = run(*small(*MLP, *words.split(), "rounds=1"))
    assert digest(record.state) == digest(alone.state)
    environment = RunDirectory.open(tmp_path / "run").environment()
    assert environment is not None
    assert environment["batching"]["clients"] == 1
    assert reason in environment["batching"]["because"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("model.widths=[4096] training.batch=64", "no tiny step"),
        ("model=convnet model.widths=[16,32] data.size=32 training.batch=64", "no tiny step"),
        ("model=convnet model.widths=[32,64,128,512] training.batch=1", "not thin"),
    ],
)
def test_auto_leaves_large_steps_and_networks_alone(words: str, reason: str) -> None:
    experiment, options = small(*MLP, *words.split(), "training.clients_per_batch=auto")
    assert options.auto_batching
    task, because = Simulation(experiment).task.choose_batching()
    assert task.together.clients == 1
    assert reason in because


@pytest.mark.parametrize(
    "model",
    [
        "convnet model.widths=[8,16,32]",
        "convnet model.widths=[8,16,32] model.norm=group",
        "lenet",
        "transformer model.width=32",
        "resnet32 model.width=0.5 data.size=8",
        "mlp model.norm=batch model.widths=[32]",
        "beside_networks:Counting",
    ],
)
def test_auto_puts_small_networks_side_by_side(model: str) -> None:
    assert simulate(*MLP, *f"model={model} training.clients_per_batch=auto".split()).task.together.clients == 2


@pytest.mark.parametrize(("cohort", "size"), [(1, 1), (2, 1), (4, 2), (50, 25), (64, 32), (65, 17), (1000, 32)])
def test_auto_makes_an_even_number_of_groups_of_one_size(cohort: int, size: int) -> None:
    words = [
        "clients=1000",
        "data.train=1000",
        "partition=homogeneous",
        "partition.minimum=1",
        f"participation={cohort / 1000}",
    ]
    task = simulate(*MLP, *words, "training.clients_per_batch=auto").task
    assert task.together.clients == size
    groups = task.groups(range(cohort))
    assert [client for group in groups for client in group] == list(range(cohort))


def test_one_by_one_is_the_default() -> None:
    assert small().experiment.training.clients_per_batch == 1
    assert simulate().task.groups([3, 1, 2]) == [[3], [1], [2]]


def test_who_trains_together_is_a_part_of_the_experiment(tmp_path: Path) -> None:
    words = [*MLP, "training.clients_per_batch=2"]
    assert small(*words).experiment.digest() != small(*MLP).experiment.digest()
    list(run(*small(*words, "rounds=1"), tmp_path / "run"))
    with pytest.raises(UserError, match=r"training.clients_per_batch: 2 there, 4 here"):
        resume(tmp_path / "run", *small(*MLP, "training.clients_per_batch=4"))


@pytest.mark.parametrize("model", ["model=mlp", "model=convnet model.widths=[6,8] batchnorm=local"])
def test_groups_change_the_last_bits_at_most(model: str) -> None:
    """Of the terms of three rounds; bits do differ, or they would not belong to the experiment."""
    found = [result(run(*small(*MLP, *model.split(), f"training.clients_per_batch={count}"))) for count in (1, 2, 4)]
    assert len({rounds[-1][1] for rounds in found}) > 1
    for rounds in found[1:]:
        for (record, _), (expected, _) in zip(rounds, found[0], strict=True):
            assert record["terms"] == pytest.approx(expected["terms"], abs=1e-5)


@dataclass(frozen=True)
class Live:
    """A connection to clients elsewhere, which is never opened."""

    federation: Federation

    def open(self, memories: Memories) -> AbstractContextManager[RunClients]:
        raise AssertionError(memories)


def test_clients_elsewhere_train_one_by_one() -> None:
    experiment, options = small(*MLP, "training.clients_per_batch=2")
    with pytest.raises(
        UserError, match=r"training.clients_per_batch=2: clients of a live connection .* train one by one"
    ):
        next(run(experiment, options, through=Live(Simulation(experiment).federation)))
