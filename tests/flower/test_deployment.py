"""A deployed federation, message by message, in one process: the same ClientApp, the same server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from local_grid import Answer, LocalGrid
from small import Small, digest, result, simulate, small

from feddecorr import diagnose
from feddecorr.core.evidence import Evidence
from feddecorr.core.messages import Update, from_bytes, to_bytes
from feddecorr.core.states import load_into
from feddecorr.core.trust import VARIABLE
from feddecorr.data.dataset import Dataset, Images
from feddecorr.deployment.server_app import Deployment
from feddecorr.errors import RunError, UserError
from feddecorr.flower import connected_nodes
from feddecorr.flower.client_app import app
from feddecorr.flower.payload import BYTES, CONFIG, CONTENT, unpack
from feddecorr.methods import METHODS
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import ensure, resume, run
from feddecorr.settings.options import RunOptions

CLIENTS = 3
WORDS = [f"clients={CLIENTS}", "engine=flower", "engine.wait=0.01"]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connected_nodes, "POLL_INTERVAL", 0.001)
    monkeypatch.setenv(VARIABLE, "outside")  # nodes run what their owners allow


@pytest.fixture(scope="session")
def dataset() -> Dataset:
    """Return all images."""
    return simulate(*WORDS).dataset


@pytest.fixture
def configs(tmp_path: Path, dataset: Dataset) -> dict[int, dict[str, Any]]:
    """Return nodes that hold nothing but their own images, in files of their own."""
    shards = simulate(*WORDS).shards
    found = {}
    for client in range(CLIENTS):
        images, file = shards[client].images, tmp_path / f"images-{client}.npz"
        test = {"x_test": dataset.test.pixels[client::CLIENTS], "y_test": dataset.test.labels[client::CLIENTS]}
        train = {"x_train": images.pixels, "y_train": images.labels}
        arrays = {name: tensor.numpy() for name, tensor in {**train, **test}.items()}
        np.savez(file, allow_pickle=False, classes=np.array(dataset.classes), **arrays)
        found[100 + client] = {"client": client, "data": f"npz:{file}", "memory": str(tmp_path / f"disk-{client}")}
    return found


def connect(
    grid: LocalGrid, settings: Small, out: Path, *, test: Dataset | None = None, said: list[str] | None = None
) -> Deployment:
    return Deployment(grid, *settings, out, test=test, log=(said if said is not None else []).append)


def elsewhere(*words: str) -> Small:
    """Return the small experiment on images that the nodes hold."""
    experiment, options = small(*WORDS, *words)
    return Small(experiment.model_copy(update={"data": small("data=nodes").experiment.data}), options)


@pytest.mark.parametrize("name", [*METHODS.table, "outside:Remembering"])
def test_nodes_with_their_own_images_give_the_bits_of_serial(
    configs: dict[int, dict[str, Any]], dataset: Dataset, tmp_path: Path, name: str
) -> None:
    """Constants come from merged sums, updates in any order; the server evaluates on its own test images."""
    words = [f"method={name}", "regularizers=feddecorr", "participation=0.7", "rounds=3", "batchnorm=local"]
    experiment = elsewhere(*words)
    connection = connect(LocalGrid(configs), experiment, tmp_path / "run", test=dataset)
    found = list(ensure(*experiment, tmp_path / "run", through=connection))
    assert result(found) == result(run(*small(*WORDS[:1], *words)))
    assert len(list((tmp_path / "run" / "clients").iterdir())) == 1, "the server keeps nothing of what clients remember"


def test_nodes_may_hold_parts_of_a_known_data_set(tmp_path: Path) -> None:
    experiment, options = small(*WORDS, "rounds=1")
    grid = LocalGrid({7 + client: {"client": client, "memory": str(tmp_path)} for client in range(CLIENTS)})
    connection = connect(grid, Small(experiment, options), tmp_path / "run")
    (found,) = ensure(experiment, options, tmp_path / "run", through=connection)
    (expected,) = run(*small(*WORDS[:1], "rounds=1"))
    assert digest(found.state) == digest(expected.state)


def test_a_server_that_was_killed_goes_on_from_the_last_finished_round(
    configs: dict[int, dict[str, Any]], tmp_path: Path
) -> None:
    """Also where clients had already trained in the round that was lost: what they remember of it does not count."""
    experiment = elsewhere("method=scaffold", "rounds=4")
    records = ensure(*experiment, tmp_path / "run", through=connect(LocalGrid(configs), experiment, tmp_path / "run"))
    found = [next(records), next(records)]
    records.close()
    lost = connect(LocalGrid(configs), experiment, tmp_path / "run")
    with lost.open(RunDirectory(tmp_path / "run").memories) as run_clients:
        server = RunDirectory(tmp_path / "run").load_server(lost.federation.start())
        assert server is not None
        assert len(list(run_clients(experiment.experiment.method.broadcast(3, server), [0, 1, 2]))) == CLIENTS
    again = connect(LocalGrid(configs), experiment, tmp_path / "run")
    found += ensure(*experiment, tmp_path / "run", through=again)
    expected = run(*small(*WORDS[:1], "method=scaffold", "rounds=4"))
    assert [digest(record.state) for record in found] == [digest(record.state) for record in expected]


def test_a_node_that_comes_back_is_known_by_its_client_and_remembers(
    configs: dict[int, dict[str, Any]], tmp_path: Path
) -> None:
    """Flower gave it another number; who was missing, and why, is in the round's line."""
    experiment = elsewhere("method=scaffold", "rounds=4", "missing=continue")
    grid = LocalGrid(configs)
    records = ensure(*experiment, tmp_path / "run", through=connect(grid, experiment, tmp_path / "run"))
    assert next(records).missing == {}
    grid.dead.add(101)
    assert "the node is gone" in next(records).missing[1]
    config = grid.configs.pop(101)
    assert next(records).missing == {1: "its node was not connected"}
    grid.configs[999] = config
    last = next(records)
    assert (last.missing, last.notes) == ({}, {})
    assert [list(record.missing) for record in RunDirectory.open(tmp_path / "run").rounds()] == [[], [1], [1], []]


@pytest.mark.parametrize(
    ("words", "begins_anew"),
    [(["method=moon"], True), (["batchnorm=local"], True), (["method=scaffold"], False), (["method=feddyn"], False)],
)
def test_a_lost_memory_is_noticed(
    configs: dict[int, dict[str, Any]], tmp_path: Path, words: list[str], begins_anew: bool
) -> None:
    """A client may begin anew where only itself is concerned, not where the server holds a share of what was lost."""
    experiment = elsewhere(*words, "rounds=2", "missing=continue")
    grid = LocalGrid(configs)
    records = ensure(*experiment, tmp_path / "run", through=connect(grid, experiment, tmp_path / "run"))
    next(records)
    grid.configs[101]["memory"] = str(tmp_path / "a new disk")
    second = next(records)
    lost = "it has lost its state of round 1"
    assert second.notes == ({1: f"{lost}, and started afresh"} if begins_anew else {})
    assert list(second.missing) == ([] if begins_anew else [1])
    assert begins_anew or f"{lost}, without which" in second.missing[1]
    assert [record.notes for record in RunDirectory.open(tmp_path / "run").rounds()] == [{}, second.notes]


def test_a_method_without_memory_has_none_to_lose(configs: dict[int, dict[str, Any]], tmp_path: Path) -> None:
    experiment = elsewhere("rounds=2")
    grid = LocalGrid(configs)
    records = ensure(*experiment, tmp_path / "run", through=connect(grid, experiment, tmp_path / "run"))
    next(records)
    grid.configs[101]["memory"] = str(tmp_path / "a new disk")
    assert next(records).notes == {}


def test_too_few_nodes_are_waited_for_by_name_and_then_given_up(
    configs: dict[int, dict[str, Any]], tmp_path: Path
) -> None:
    del configs[101]
    said: list[str] = []
    with pytest.raises(RunError, match=r"client 1 of 3 did not connect within engine.wait=0.01 seconds"):
        connect(LocalGrid(configs), elsewhere(), tmp_path / "run", said=said)
    assert "waiting for client 1, at most 0.01 seconds" in said
    assert not (tmp_path / "run").exists()


def test_two_nodes_that_claim_the_same_client_are_both_named(
    configs: dict[int, dict[str, Any]], tmp_path: Path
) -> None:
    grid = LocalGrid({**configs, 500: configs[101]})
    with pytest.raises(RunError, match="nodes 101 and 500 both claim to be client 1"):
        connect(grid, elsewhere(), tmp_path / "run")
    grid.dead.add(101)  # was killed and came back as 500, before Flower noticed
    assert len(connect(grid, elsewhere(), tmp_path / "run").federation.roster) == CLIENTS


def test_a_node_that_cannot_take_part_says_why(configs: dict[int, dict[str, Any]], tmp_path: Path) -> None:
    configs[101]["data"] = "npz:/there/is/no.npz"
    with pytest.raises(RunError, match=r"node 101 cannot participate: there is no file /there/is/no.npz"):
        connect(LocalGrid(configs), elsewhere(), tmp_path / "run")
    configs[101] = {"client": 1, "dat": "digits"}
    with pytest.raises(RunError, match="unknown in --node-config: dat"):
        connect(LocalGrid(configs), elsewhere(), tmp_path / "run")


@pytest.mark.parametrize("policy", ["continue", "fail"])
def test_a_node_that_cannot_take_part_in_a_begun_run_is_left_out_by_the_policy(
    configs: dict[int, dict[str, Any]], tmp_path: Path, policy: str
) -> None:
    """Under another number, as if it had come back with its disk broken; what it says is in the log."""
    experiment = elsewhere("rounds=2", f"missing={policy}")
    grid, said = LocalGrid(configs), list[str]()
    records = ensure(*experiment, tmp_path / "run", through=connect(grid, experiment, tmp_path / "run", said=said))
    next(records)
    grid.configs[999] = {**grid.configs.pop(101), "data": "npz:/there/is/no.npz"}
    why = "node 999 cannot participate: there is no file /there/is/no.npz"
    if policy == "fail":
        with pytest.raises(RunError, match=why):
            next(records)
        return
    assert list(next(records).missing) == [1]
    assert sum(why in line for line in said) == 1


def test_a_data_summary_that_is_not_ours_is_refused_in_words(
    configs: dict[int, dict[str, Any]], tmp_path: Path
) -> None:
    """Its node is waited for, as if it were not there."""
    grid, said = LocalGrid(configs), list[str]()
    grid.answers[101] = _junk
    with pytest.raises(RunError, match="client 1 of 3 did not connect"):
        connect(grid, elsewhere(), tmp_path / "run", said=said)
    why = "node 101 did not reply to a query: its message was refused: this is not a message of feddecorr: it holds x"
    assert said.count(why) == 1


def test_other_data_than_the_run_began_with_are_refused(configs: dict[int, dict[str, Any]], tmp_path: Path) -> None:
    experiment = elsewhere("rounds=2")
    next(ensure(*experiment, tmp_path / "run", through=connect(LocalGrid(configs), experiment, tmp_path / "run")))
    configs[101]["data"], configs[102]["data"] = configs[102]["data"], configs[101]["data"]
    with pytest.raises(RunError, match=r"client [12]'s node 10[12] cannot participate: it came back with other data"):
        next(ensure(*experiment, tmp_path / "run", through=connect(LocalGrid(configs), experiment, tmp_path / "run")))


def _junk(message: Message, _: Context) -> Message:
    return Message(RecordDict({"x": ConfigRecord({"y": 1})}), reply_to=message)


def _changed(content: bytes, kind: str, message: Message) -> Message:
    array = Array(dtype="uint8", shape=(len(content),), stype="safetensors", data=content)
    records = RecordDict({CONTENT: ArrayRecord({BYTES: array}), CONFIG: ConfigRecord({"kind": kind})})
    return Message(records, reply_to=message)


def _honest(message: Message, context: Context) -> bytes:
    return unpack(app(message, context).content, 1 << 30).content


def _when_training(answer: Answer) -> Answer:
    """Answer honestly but when it is about training."""
    return lambda message, context: (answer if message.metadata.message_type == "train" else app)(message, context)


def _truncated(message: Message, context: Context) -> Message:
    return _changed(_honest(message, context)[:-7], "update", message)


def _too_large(message: Message, _: Context) -> Message:
    return _changed(bytes(1 << 25), "update", message)


def _of_another(message: Message, context: Context) -> Message:
    update = replace(from_bytes(Update, _honest(message, context)), client=0)
    return _changed(to_bytes(update), "update", message)


def _not_finite(message: Message, context: Context) -> Message:
    update = from_bytes(Update, _honest(message, context))
    next(iter(update.weights.values())).fill_(torch.nan)
    return _changed(to_bytes(update), "update", message)


def _of_no_kind(message: Message, context: Context) -> Message:
    return _changed(_honest(message, context), "pickle", message)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (_junk, "node 101: its message was refused: this is not a message of feddecorr: it holds x"),
        (_truncated, "its message was refused: this is no message that can be read"),
        (_too_large, "node 101: its message was refused: the message has 33554432 bytes, more than the"),
        (_of_another, "it replied as client 0"),
        (_not_finite, "its weights hold NaN or infinity"),
        (_of_no_kind, "it sent 'pickle', neither an update nor a failure"),
    ],
)
def test_hostile_and_broken_messages_are_refused_and_the_run_goes_on_by_its_policy(
    configs: dict[int, dict[str, Any]], tmp_path: Path, answer: Answer, why: str
) -> None:
    grid = LocalGrid(configs)
    experiment = elsewhere("missing=continue", "rounds=1")
    connection = connect(grid, experiment, tmp_path / "run")
    grid.answers[101] = _when_training(answer)
    (record,) = ensure(*experiment, tmp_path / "run", through=connection)
    assert list(record.missing) == [1]
    assert record.missing[1].startswith(why)
    strict = elsewhere("rounds=1")
    grid.answers = {}
    connection = connect(grid, strict, tmp_path / "strict")
    grid.answers[101] = _when_training(answer)
    with pytest.raises(RunError, match="client 1 failed in round 1"):
        list(ensure(*strict, tmp_path / "strict", through=connection))


def test_a_run_of_a_deployment_is_read_like_any_other(configs: dict[int, dict[str, Any]], tmp_path: Path) -> None:
    """But nothing can be trained again without the nodes."""
    experiment = elsewhere("rounds=2")
    list(ensure(*experiment, tmp_path / "run", through=connect(LocalGrid(configs), experiment, tmp_path / "run")))
    assert RunDirectory.open(tmp_path / "run").rounds()[-1].accuracy is not None
    with pytest.raises(UserError, match="the images are with the nodes of a federation"):
        list(resume(tmp_path / "run", options=RunOptions(rounds=3)))


def test_a_server_without_test_images_knows_the_spectrum_from_its_clients(
    configs: dict[int, dict[str, Any]], dataset: Dataset, tmp_path: Path
) -> None:
    """The global model's, from what all clients tell of their own images; each local model's, from its client."""
    experiment = elsewhere("rounds=2", "evaluation.clients=true", "evaluation.every=1")
    grid = LocalGrid(configs)
    connection = connect(grid, experiment, tmp_path / "run")
    records = list(ensure(*experiment, tmp_path / "run", through=connection))
    model = connection.federation.task.build_model()
    load_into(model, records[-1].state)
    images, task = Images(dataset.test.pixels, dataset.test.labels), connection.federation.task
    whole = diagnose(model, [task.inputs(images)])
    last = RunDirectory.open(tmp_path / "run").rounds()[-1]
    assert last.model is not None
    assert (last.accuracy, last.model.samples) == (whole.accuracy, len(images))
    assert last.singular_values == pytest.approx(whole.singular_values, rel=1e-6, abs=1e-9)
    assert sorted(last.local_models) == [0, 1, 2]
    assert sum(found.samples for found in last.local_models.values()) == len(images)
    assert {kind for _, kind in grid.asked} == {"query", "train", "evaluate"}


def test_a_client_that_cannot_evaluate_is_left_out_of_the_measures_alone(
    configs: dict[int, dict[str, Any]], tmp_path: Path
) -> None:
    experiment = elsewhere("rounds=1")
    said: list[str] = []

    def trains_only(message: Message, context: Context) -> Message:
        return _junk(message, context) if message.metadata.message_type == "evaluate" else app(message, context)

    grid = LocalGrid(configs)
    connection = Deployment(grid, *experiment, tmp_path / "run", test=None, log=said.append)
    grid.answers[101] = trains_only
    (record,) = ensure(*experiment, tmp_path / "run", through=connection)
    assert record.missing == {}
    assert record.model is not None
    assert record.model.samples == 40 - len(range(1, 40, CLIENTS))
    assert any("node 101 did not evaluate round 1" in line for line in said)


def test_evidence_that_cannot_be_ends_the_update(configs: dict[int, dict[str, Any]], tmp_path: Path) -> None:
    experiment = elsewhere("rounds=1", "evaluation.clients=true", "missing=continue")
    grid = LocalGrid(configs)
    connection = connect(grid, experiment, tmp_path / "run")

    def lying(message: Message, context: Context) -> Message:
        update = from_bytes(Update, _honest(message, context))
        update.evidence["counts"].fill_(-5)
        return _changed(to_bytes(update), "update", message)

    grid.answers[101] = _when_training(lying)
    (record,) = ensure(*experiment, tmp_path / "run", through=connection)
    assert record.missing[1].startswith("its evidence was refused: samples=-5, not")


def test_evidence_of_another_network_is_left_out_of_the_measures_alone(
    configs: dict[int, dict[str, Any]], tmp_path: Path
) -> None:
    """Also where nobody's is left: then the round has no measures, and the run goes on."""
    experiment, said = elsewhere("rounds=2", "evaluation.every=1"), list[str]()
    grid = LocalGrid(configs)
    connection = connect(grid, experiment, tmp_path / "run", said=said)
    other = Evidence.of(torch.nn.Sequential(torch.nn.Linear(2, 5), torch.nn.Linear(5, 2)), [torch.randn(9, 2)])

    def elsewhere_trained(message: Message, context: Context) -> Message:
        asked = message.metadata.message_type == "evaluate"
        return _changed(other.to_bytes(), "evidence", message) if asked else app(message, context)

    grid.answers[101] = elsewhere_trained
    records = ensure(*experiment, tmp_path / "run", through=connection)
    first = next(records)
    assert first.model is not None
    assert any("node 101 did not evaluate round 1: evidence of 5 features" in line for line in said)
    grid.answers = dict.fromkeys(configs, elsewhere_trained)
    assert next(records).model is None
