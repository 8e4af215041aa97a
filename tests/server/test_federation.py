import json
from collections.abc import Iterator
from functools import reduce
from operator import add
from pathlib import Path

import pytest
import torch
from apart import Apart
from small import digest, simulate, small

from feddecorr.data.dataset import PixelSums
from feddecorr.errors import UserError
from feddecorr.methods import METHODS
from feddecorr.report.runs_page import write_report
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import resume, run
from feddecorr.training.task import Task

WORDS = ["participation=0.75", "regularizers=feddecorr", "batchnorm=local", "training.epochs=1"]


@pytest.fixture(scope="module")
def apart() -> Iterator[Apart]:
    """Return clients that live in processes of their own, each with its own shard and nothing else."""
    clients = Apart(small().experiment)
    yield clients
    clients.close()


@pytest.mark.parametrize("name", [*METHODS.table, "outside:Remembering"])
def test_clients_that_hold_nothing_but_their_shard_give_the_same_bits(apart: Apart, name: str) -> None:
    """All that they get and send are bytes; the server has no data at all."""
    experiment, options = small(f"method={name}", *WORDS)
    expected = [(record.terms, digest(record.state)) for record in run(experiment, options)]
    found = list(run(experiment, options, through=apart.connect(experiment)))
    assert [(record.terms, digest(record.state)) for record in found] == expected
    assert all(record.model is None for record in found)


def test_a_server_without_test_images_has_a_run_like_any_other(apart: Apart, tmp_path: Path) -> None:
    """It can be interrupted, gone on with and reported; accuracy alone is not there."""
    experiment, options = small("regularizers=feddecorr")
    expected = [digest(record.state) for record in run(experiment, options)]
    records = run(experiment, options, tmp_path / "run", through=apart.connect(experiment))
    first = next(records)
    records.close()
    rest = list(resume(tmp_path / "run", through=apart.connect(experiment), trust=True))
    assert [digest(record.state) for record in (first, *rest)] == expected
    assert [record.accuracy for record in RunDirectory.open(tmp_path / "run").rounds()] == [None] * 3
    write_report([tmp_path / "run"], tmp_path / "report.html")


def test_a_connection_that_was_made_for_another_experiment_is_refused(tmp_path: Path) -> None:
    """Its clients would train by another one than the run says."""
    connection = simulate("training.lr=0.1")
    with pytest.raises(UserError, match=r"another experiment \(training\.lr: 0\.1 there, 0\.05 here\)"):
        list(run(*small(), tmp_path / "run", through=connection))
    assert not (tmp_path / "run").exists()
    assert len(list(run(connection.federation.experiment, small().options, tmp_path / "run", through=connection))) == 3


def test_a_task_survives_being_written_down() -> None:
    task = simulate("method=moon", "regularizers=feddecorr").task
    assert Task.from_dict(json.loads(json.dumps(task.to_dict()))) == task


def test_constants_merged_from_the_clients_sums_are_those_of_all_images() -> None:
    """To the last bit: the sums are exact, whoever holds which image."""
    simulation = simulate("data.channels=3")
    sums = [PixelSums.of(simulation.shards[client].images.pixels) for client in range(4)]
    merged = reduce(add, sums)
    assert merged == PixelSums.of(simulation.dataset.train.pixels)
    assert (merged.mean, merged.std) == (simulation.task.mean, simulation.task.std)


def test_a_shard_is_what_the_split_says() -> None:
    simulation = simulate()
    for client, part in enumerate(simulation.shards.parts):
        shard = simulation.shards[client]
        assert torch.equal(shard.images.pixels, simulation.dataset.train.pixels[part])
        assert torch.equal(shard.images.labels, simulation.dataset.train.labels[part])
        assert len(shard) == simulation.federation.roster.sizes[client]
    assert sum(len(part) for part in simulation.shards.parts) == 120


def test_a_single_class_cannot_be_learned() -> None:
    with pytest.raises(UserError, match="the only one is 'cat'"):
        Task(small().experiment, (1, 8, 8), ("cat",), (0.0,), (1.0,))
