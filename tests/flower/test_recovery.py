"""A deployment that goes on: with nodes that hang, sites that change or cannot participate, and other classes."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import time
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch
from command_line import CommandLine
from flwr.app import Context, Message
from local_grid import Answer, LocalGrid
from sites import connect, federated, write_pictures, write_sites

from feddecorr.core.checks import MOST_CLASSES
from feddecorr.core.messages import Broadcast, to_bytes
from feddecorr.deployment import server_app as deployment
from feddecorr.errors import RunError
from feddecorr.flower import connected_nodes, node
from feddecorr.flower.client_app import app
from feddecorr.flower.exchange import BUSY
from feddecorr.flower.payload import Payload, pack, to_arrays, unpack
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import ensure

Configs = dict[int, dict[str, Any]]
CLASSES = ("blue", "green", "red")


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in (connected_nodes, deployment):
        monkeypatch.setattr(module, "POLL_INTERVAL", 0.001)
    monkeypatch.setenv("FEDDECORR_DATA", str(tmp_path / "cache"))


@pytest.fixture
def configs(tmp_path: Path) -> Configs:
    """Return three sites with the same classes."""
    return write_sites(tmp_path, dict.fromkeys(range(3), CLASSES))


@pytest.mark.parametrize("policy", ["continue", "fail"])
def test_a_round_ends_by_its_timeout_with_what_came_by_then(configs: Configs, tmp_path: Path, policy: str) -> None:
    """A node that hangs is missing, by the policy; it is asked again when it has answered, and not before."""
    experiment = federated("engine.timeout=0.3", f"missing={policy}", "rounds=4")
    grid, said = LocalGrid(configs), list[str]()
    records = ensure(*experiment, tmp_path / "run", through=connect(grid, experiment, tmp_path / "run", said))
    assert next(records).missing == {}
    grid.hung.add(101)
    began = time.monotonic()
    why = "its node did not reply within 0.3 seconds"
    if policy == "fail":
        with pytest.raises(RunError, match=f"client 1 failed in round 2: node 101: {why}"):
            next(records)
        return
    assert next(records).missing == {1: f"node 101: {why}"}
    assert time.monotonic() - began < 60
    asked = len(grid.asked)
    assert next(records).missing == {1: f"node 101: {BUSY}"}
    assert 101 not in {node for node, _ in grid.asked[asked:]}
    grid.hung.clear()
    assert next(records).missing == {}


def test_an_update_that_comes_too_late_is_never_counted(configs: Configs, tmp_path: Path) -> None:
    experiment = federated("engine.timeout=0.1", "missing=continue", "rounds=3", "method=scaffold")
    grid = LocalGrid(configs)
    records = ensure(*experiment, tmp_path / "run", through=connect(grid, experiment, tmp_path / "run"))
    next(records)
    grid.hung.add(101)
    next(records)
    grid.hung.clear()  # its answer to round 2 comes in round 3
    third = next(records)
    assert (third.missing, third.notes) == ({}, {})


def test_a_stranger_that_hangs_holds_up_nothing(configs: Configs, tmp_path: Path) -> None:
    """Neither before the first round nor later: nobody waits for its data summary."""
    experiment = federated("missing=continue", "engine.wait=100")
    grid = LocalGrid({**configs, 555: {"client": 1}})
    grid.hung.add(555)
    began = time.monotonic()
    records = list(ensure(*experiment, tmp_path / "run", through=connect(grid, experiment, tmp_path / "run")))
    assert [record.missing for record in records] == [{}, {}]
    assert time.monotonic() - began < 60
    assert [node for node, _ in grid.asked].count(555) == 1


def test_what_flower_cannot_read_or_fetch_costs_its_sender_alone(configs: Configs, tmp_path: Path) -> None:
    """An answer whose upload stalls, and one that is malformed: neither ends the run, delays it, or loses another."""
    experiment = federated("engine.timeout=0.3", "missing=continue", "rounds=9")
    grid = LocalGrid(configs)
    records = ensure(*experiment, tmp_path / "run", through=connect(grid, experiment, tmp_path / "run"))
    assert next(records).missing == {}
    grid.stalled[101], grid.malformed = Event(), {102}
    assert next(records).missing == {
        1: "node 101: its node did not reply within 0.3 seconds",
        2: "node 102: its message cannot be read: KeyError: 'ab12'",
    }
    grid.malformed.clear()
    assert next(records).missing == {1: f"node 101: {BUSY}"}
    grid.stalled.pop(101).set()
    assert any(record.missing == {} for record in records), "it is asked again"


def test_a_stranger_that_flower_cannot_read_holds_up_nothing(configs: Configs, tmp_path: Path) -> None:
    experiment = federated("missing=continue", "engine.wait=100")
    grid = LocalGrid({**configs, 555: {"client": 1}, 556: {"client": 2}})
    grid.stalled[555], grid.malformed = Event(), {556}
    records = list(ensure(*experiment, tmp_path / "run", through=connect(grid, experiment, tmp_path / "run")))
    assert [record.missing for record in records] == [{}, {}]


def test_a_stranger_that_claims_a_client_costs_the_client_nothing(configs: Configs, tmp_path: Path) -> None:
    """Once the run has begun, the node that was there first stays the client's."""
    experiment = federated("missing=continue", "rounds=3")
    grid, said = LocalGrid(configs), list[str]()
    records = ensure(*experiment, tmp_path / "run", through=connect(grid, experiment, tmp_path / "run", said))
    next(records)
    grid.configs[555] = configs[101]
    assert [record.missing for record in records] == [{}, {}]
    assert any("nodes 101 and 555 both claim to be client 1" in line for line in said)


def test_a_site_that_cannot_take_part_does_not_end_the_run_before_it_begins(configs: Configs, tmp_path: Path) -> None:
    """Under missing=continue; who it is and why is in the log and in each round's line."""
    shutil.rmtree(tmp_path / "pictures-1")
    (tmp_path / "pictures-1").mkdir()
    with pytest.raises(RunError, match=r"client 1's node 101 cannot participate: .*expected a folder of pic"):
        connect(LocalGrid(configs), federated(), tmp_path / "run")
    experiment, said = federated("missing=continue"), list[str]()
    through = connect(LocalGrid(configs), experiment, tmp_path / "run", said)
    records = list(ensure(*experiment, tmp_path / "run", through=through))
    assert all("expected a folder of pictures for each class" in record.missing[1] for record in records)
    assert any(line.startswith("the run begins without client 1: ") for line in said)
    assert RunDirectory.open(tmp_path / "run").roster().sizes.tolist() == [24, 0, 24]


def lying(**changes: Any) -> Answer:
    """Return a node that reports something else than its data."""

    def answer(message: Message, context: Context) -> Message:
        reply = app(message, context)
        if message.metadata.message_type != "query":
            return reply
        document = {**json.loads(unpack(reply.content, 1 << 30).content), **changes}
        return Message(pack(to_arrays(json.dumps(document).encode()), {"kind": "data_summary"}), reply_to=message)

    return answer


LIES: dict[str, dict[str, Any]] = {
    "another client": {"client": 0},
    "more classes than a model may have": {"classes": [f"x{n}" for n in range(MOST_CLASSES)]},
}


@pytest.mark.parametrize("name", LIES)
def test_no_report_of_a_node_ends_the_run_before_it_begins(name: str, configs: Configs, tmp_path: Path) -> None:
    experiment, said = federated("missing=continue"), list[str]()
    grid = LocalGrid(configs)
    grid.answers[101] = lying(**LIES[name])
    records = ensure(*experiment, tmp_path / "run", through=connect(grid, experiment, tmp_path / "run", said))
    assert all(set(record.missing) in ({1}, {0, 1}) for record in records)  # of two, the first to come stays client 0
    assert any("both claim to be client 0" in line or "32771, more than 32768" in line for line in said)
    assert "the model has 3 classes: blue, green, red" in said
    with pytest.raises(
        RunError, match=r"both claim to be client 0|client 1 cannot participate: it names 32768 classes"
    ):
        connect(grid, federated(), tmp_path / "strict")


def test_no_number_of_examples_costs_the_server_more_than_a_line(configs: Configs, tmp_path: Path) -> None:
    """It is a number of batches, which are counted, not listed."""
    claimed = 2**31 - 1
    pixels = {"count": claimed * 64, "sums": [claimed * 64] * 3, "squares": [claimed * 64] * 3}
    experiment, said = federated("missing=continue", "training.batch=1", "transforms=median"), list[str]()
    grid = LocalGrid(configs)
    grid.answers[101] = lying(examples=claimed, sums=pixels)
    records = ensure(*experiment, tmp_path / "run", through=connect(grid, experiment, tmp_path / "run", said))
    assert [record.missing for record in records] == [{}, {}]
    assert f"client 1 reports {claimed} of all {claimed + 48} examples: means follow it alone" in said


def test_a_client_that_never_connects_does_not_keep_the_others(configs: Configs, tmp_path: Path) -> None:
    experiment = federated("missing=continue")
    config = configs.pop(102)
    grid = LocalGrid(configs)
    records = ensure(*experiment, tmp_path / "run", through=connect(grid, experiment, tmp_path / "run"))
    assert next(records).missing == {2: connected_nodes.NOT_CONNECTED}
    grid.configs[102] = config
    assert next(records).missing == {2: connected_nodes.NOT_CONNECTED}
    with pytest.raises(RunError, match=r"clients 0, 1, 2 of 3 did not connect"):
        connect(LocalGrid({}), experiment, tmp_path / "nobody")


def test_other_sizes_of_pictures_are_left_out_by_name_or_resized_at_the_node(tmp_path: Path, configs: Configs) -> None:
    shutil.rmtree(tmp_path / "pictures-1")
    write_pictures(tmp_path / "pictures-1", CLASSES, size=12)
    why = r"its images have the shape (3, 12, 12), most clients' (3, 8, 8): data.size at the node resizes them"
    with pytest.raises(RunError, match=re.escape(f"client 1 cannot participate: {why}")):
        connect(LocalGrid(configs), federated(), tmp_path / "run")
    experiment = federated("missing=continue", "rounds=1")
    (found,) = ensure(*experiment, tmp_path / "a", through=connect(LocalGrid(configs), experiment, tmp_path / "a"))
    assert found.missing == {1: why}
    del configs[101]["data"]
    configs[101] |= {"data.name": "folder", "data.path": str(tmp_path / "pictures-1"), "data.size": 8}
    (found,) = ensure(*experiment, tmp_path / "b", through=connect(LocalGrid(configs), experiment, tmp_path / "b"))
    assert found.missing == {}


def test_a_site_with_one_class_takes_part(tmp_path: Path) -> None:
    """That is the skew that all of this is about; the model has the classes of all, which the log names."""
    configs = write_sites(tmp_path, {0: ["red"], 1: ["green", "red"], 2: ["green", "blue"]})
    said: list[str] = []
    experiment = federated("rounds=1")
    through = connect(LocalGrid(configs), experiment, tmp_path / "run", said)
    assert through.federation.task.classes == CLASSES
    (record,) = ensure(*experiment, tmp_path / "run", through=through)
    assert record.missing == {}
    assert {"the model has 3 classes: blue, green, red", "only client 2 has blue"} <= set(said)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("policy", ["continue", "fail"])
def test_a_site_with_other_data_is_noticed_by_name(
    configs: Configs, tmp_path: Path, policy: str, restarted: bool
) -> None:
    """When it comes back, and when the server does; a new class never widens the model; the old data are welcome."""
    experiment = federated(f"missing={policy}", "rounds=3")
    grid, said = LocalGrid(configs), list[str]()
    records = ensure(*experiment, tmp_path / "run", through=connect(grid, experiment, tmp_path / "run", said))
    assert next(records).missing == {}
    write_pictures(tmp_path / "pictures-1", ["grey"], count=5)
    grid.configs[777] = grid.configs.pop(101)
    why = "it came back with other data (28 examples, no longer 24; the class grey new)"
    if restarted:
        records.close()
    if policy == "fail":
        with pytest.raises(RunError, match=re.escape(f"client 1's node 777 cannot participate: {why}")):
            connect(grid, experiment, tmp_path / "run") if restarted else next(records)
        return
    if restarted:
        records = ensure(*experiment, tmp_path / "run", through=connect(grid, experiment, tmp_path / "run", said))
    assert next(records).missing == {1: why}
    assert sum(why in line for line in said) == 1
    shutil.rmtree(tmp_path / "pictures-1" / "grey")
    assert next(records).missing == {}


def test_a_resumed_run_goes_on_without_a_site_that_is_gone(configs: Configs, tmp_path: Path) -> None:
    experiment = federated("missing=continue", "rounds=3")
    next(ensure(*experiment, tmp_path / "run", through=connect(LocalGrid(configs), experiment, tmp_path / "run")))
    config = configs.pop(101)
    grid = LocalGrid(configs)
    records = ensure(*experiment, tmp_path / "run", through=connect(grid, experiment, tmp_path / "run"))
    assert next(records).missing == {1: "its node was not connected"}
    grid.configs[999] = config
    assert next(records).missing == {}


def test_a_node_says_where_it_computes_and_with_how_many_threads(
    configs: Configs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner decides, whatever the experiment says: there is no such device here."""
    federation = connect(LocalGrid(configs), federated("training.threads=2"), tmp_path / "run").federation
    server, task = federation.start(), federation.task.to_dict()
    task["device"] = "cuda:7"
    content = to_bytes(Broadcast(1, server.weights, server.buffers, {}))
    payload, seen = Payload(content, {"task": json.dumps(task), "round": 1, "client": 1}), list[int]()
    monkeypatch.setattr(torch, "set_num_threads", seen.append)

    def evaluate(config: dict[str, Any]) -> str:
        return node.handle("evaluate", payload, config)[0]

    assert evaluate(configs[101]) == "failure"
    assert evaluate({**configs[101], "device": "cpu"}) == "evidence"
    assert seen[0] == 2
    seen.clear()
    assert evaluate({**configs[101], "device": "cpu", "threads": 3}) == "evidence"
    assert seen[0] == 3


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ({"threads": 0}, "threads=0: a whole number, at least 1"),
        ({"device": "cuda:7"}, "device=cuda:7 cannot be used here, device=cpu can: "),
        ({"data.augment": "crop"}, "data.augment belongs to the experiment"),
        ({"thread": 2}, "unknown in --node-config: thread; known are client, data, data.…, device, threads, memory"),
    ],
)
def test_what_a_node_is_known_is_refused_by_name(
    configs: Configs, tmp_path: Path, setting: dict[str, Any], why: str
) -> None:
    configs[101] |= setting
    with pytest.raises(RunError, match=re.escape(f"client 1's node 101 cannot participate: {why}")):
        connect(LocalGrid(configs), federated(), tmp_path / "run")


def modes(folder: Path) -> dict[str, int]:
    """Return the rights of all that lies below a folder."""
    return {str(path.relative_to(folder)): stat.S_IMODE(path.lstat().st_mode) for path in folder.rglob("*")}


def test_what_a_node_writes_is_for_its_user_alone_and_a_command_removes_it(
    configs: Configs, tmp_path: Path, feddecorr: CommandLine
) -> None:
    """SCAFFOLD's variates and decoded pictures, whatever the umask; what is not named as ours stays."""
    disk, experiment = tmp_path / "disk", federated("method=scaffold")
    for config in configs.values():
        config["memory"] = str(disk)
    before = os.umask(0o000)
    try:
        list(ensure(*experiment, tmp_path / "run", through=connect(LocalGrid(configs), experiment, tmp_path / "run")))
    finally:
        os.umask(before)
    written = {**modes(disk), **modes(tmp_path / "cache")}
    assert sum(name.endswith(".safetensors") for name in written) >= 2 * len(configs)
    for name, mode in written.items():
        assert mode == (0o600 if "." in name else 0o700), name
    run = next(disk.iterdir())
    kept = [disk / "notes.txt", run / "0" / "thesis.txt", tmp_path / "cache" / "mnist.safetensors"]
    link = run / "0" / "7.safetensors"
    for file in kept:
        file.write_text("mine")
    link.symlink_to(kept[0])

    listed = feddecorr("flower", "clean", "--memory", disk, "--json").document
    assert sorted(map(Path, listed["files"])) == sorted(
        file
        for folder in (disk, tmp_path / "cache")
        for file in folder.rglob("*.safetensors")
        if file not in (*kept, link)
    )
    assert not listed["removed"]
    assert all(Path(file).exists() for file in listed["files"])
    feddecorr("flower", "clean", "--memory", disk, "--yes")
    assert sorted(path for path in disk.rglob("*") if not path.is_dir()) == sorted([*kept[:2], link])
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["mnist.safetensors"]
    assert feddecorr("flower", "clean", "--memory", disk, "--json").document["files"] == {}
