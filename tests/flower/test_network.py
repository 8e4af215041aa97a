"""A real deployment: a SuperLink and two SuperNodes with TLS and keys, each with only its own images."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from flwr.common.constant import HEARTBEAT_DEFAULT_INTERVAL
from loopback import Loopback, documented_units, write_node_keys
from small import digest, simulate, small, without_time, write_settings

from feddecorr.core.client_memory import Memories
from feddecorr.core.files import load_tensors
from feddecorr.core.messages import Broadcast, Failure, Update
from feddecorr.engines.engine import Serial
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import run
from feddecorr.runs.record import Record
from feddecorr.server.federation import RunClients, Simulation

EXAMPLES = Path(__file__).parents[2] / "examples"
CLIENTS = 2
IMPOSTOR = 66
"""The number of a key that is registered, and is no client's."""

WORDS = [f"clients={CLIENTS}", "method=scaffold", "regularizers=feddecorr", "missing=continue", "rounds=50"]


class Without:
    """A simulation in which some clients are missing in some rounds."""

    def __init__(self, simulation: Simulation, missing: dict[int, list[int]]) -> None:
        self.federation, self.missing = simulation.federation, missing
        self._shards = simulation.shards

    @contextmanager
    def open(self, memories: Memories) -> Iterator[RunClients]:
        """Leave them out."""
        with Serial().open(self.federation.task, self._shards, memories) as run_clients:

            def run_some(broadcast: Broadcast, clients: Sequence[int]) -> Iterator[Update | Failure]:
                left_out = self.missing.get(broadcast.round, [])
                yield from run_clients(broadcast, [client for client in clients if client not in left_out])
                yield from (Failure(broadcast.round, client, "left out") for client in left_out)

            yield run_some


def expected(missing: dict[int, list[int]], rounds: int) -> list[Record]:
    """Return what the serial engine makes of it."""
    experiment, options = small(*WORDS, f"rounds={rounds}")
    return list(run(experiment, options, through=Without(Simulation(experiment), missing)))


def compared(record: Record) -> dict[str, object]:
    """Return what must be the same, whoever was missing for whatever reason."""
    return without_time(replace(record, missing=dict.fromkeys(record.missing, "")).to_dict())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where everything is: the nodes' images, keys, the run."""
    return tmp_path_factory.mktemp("network")


@pytest.fixture(scope="module")
def loopback(folder: Path) -> Iterator[Loopback]:
    """Return the SuperLink, with keys of the nodes."""
    found = Loopback(folder)
    try:
        for client in range(CLIENTS):
            found.register(client)
        yield found
    finally:
        found.close()


def write_images(folder: Path) -> None:
    """Give every node its own images, and the server the test images."""
    simulation = simulate(*WORDS)
    test = {"x_test": simulation.dataset.test.pixels, "y_test": simulation.dataset.test.labels}
    for client in range(CLIENTS):
        images = simulation.shards[client].images
        train = {"x_train": images.pixels, "y_train": images.labels}
        arrays = {name: tensor.numpy() for name, tensor in {**train, **test}.items()}
        arrays["classes"] = np.array(simulation.task.classes)
        np.savez(folder / f"images{client}.npz", allow_pickle=False, **arrays)


def test_every_part_is_started_again_by_systemd() -> None:
    """A node only when Flower no longer takes the old process for alive, which is after a minute."""
    units = documented_units()
    assert {name: unit["Restart"] for name, unit in units.items()} == {
        "superlink": "always", "proxy": "always", "run": "on-failure", "supernode": "always",
    }  # fmt: skip
    assert float(units["supernode"]["RestartSec"]) > 2 * HEARTBEAT_DEFAULT_INTERVAL
    assert "--database" in units["superlink"]["ExecStart"]


def test_only_nodes_come_through_the_proxy(loopback: Loopback, folder: Path) -> None:
    """On the SuperLink itself, anyone with the authority's certificate can register a key; not through the proxy."""
    write_node_keys(folder, IMPOSTOR)
    key = folder / f"node{IMPOSTOR}.pub"
    assert loopback.flwr("supernode", "register", key, "proxy").returncode != 0
    closed = ["/v1/control/start-run", "/v1/runtime/pull-messages", "//v1/control/x", "/v1/fleet/../control/x", "/"]
    assert [loopback.ask(loopback.proxy, path) for path in closed] == [403] * len(closed)
    assert loopback.flwr("supernode", "register", key, "lab").returncode == 0


class Site:
    """The federation's app and its nodes."""

    def __init__(self, loopback: Loopback) -> None:
        self.loopback = loopback
        self.folder = loopback.folder
        self.directory = RunDirectory(self.folder / "run")
        self.words = [write_settings(self.folder / "settings.json"), *WORDS, "data=nodes", "engine=flower"]
        self.words.append("engine.authenticated=true")
        write_images(self.folder)
        self.write_app("app")
        self.nodes = [self.start_node(client) for client in range(CLIENTS)]

    def write_app(self, name: str, *words: str, out: str = "run") -> None:
        """Write an app, as a user would."""
        command = [sys.executable, "-m", "feddecorr", "flower", "app", str(self.folder / name)]
        command += [*map(str, self.words), *words]
        test = f"npz:{self.folder / 'images0.npz'}"
        options = ["--out", str(self.folder / out), "--test", test]
        environment = self.loopback.environment
        subprocess.run([*command, *options], check=True, env=environment, cwd=self.folder, capture_output=True)

    def start_node(self, client: int, *, key: int | None = None) -> subprocess.Popen[bytes]:
        """Start the node of a client, with its own images, its own disk and its own key, unless another is named."""
        node = client if key is None else key
        data, memory = f"npz:{self.folder}/images{client}.npz", f"{self.folder}/disk{node}"
        part = {"partition-id": client, "num-partitions": CLIENTS}  # for the examples
        return self.loopback.start_node(node, {"client": client, "data": data, "memory": memory, **part})

    def run(self, name: str, *, app: str = "app") -> subprocess.Popen[bytes]:
        """Start the app as a user would; its output goes to a log of that name."""
        return self.loopback.start(name, "feddecorr", "flower", "run", self.folder / app, "lab")

    def printed(self, name: str) -> str:
        """Return what a command has printed."""
        return (self.folder / "logs" / f"{name}.txt").read_text()

    def wait_for_a_round(self) -> None:
        """Wait until one more round is done."""
        done = self.directory.finished_rounds()
        self.loopback.wait_for(lambda: self.directory.finished_rounds() > done)

    def interrupt(self, run: subprocess.Popen[bytes], name: str) -> None:
        """Press Ctrl-C: the run is stopped, and it is said how it goes on."""
        run.send_signal(signal.SIGINT)
        assert run.wait(timeout=600) == 130
        again = (
            rf"run \d+ is stopped: 'feddecorr flower run {self.folder / 'app'} lab' continues from the last finished"
        )
        assert re.search(again, self.printed(name))
        self.loopback.wait_for(lambda: not self.directory.is_held())

    def check_bits(self) -> None:
        """See that all rounds are those of serial, without the clients that were missing."""
        records = self.directory.rounds()
        missing = {record.round: list(record.missing) for record in records}
        assert {client for clients in missing.values() for client in clients} <= {1}
        assert all(not record.notes for record in records), "nothing was forgotten"
        reference = expected(missing, len(records))
        assert [compared(record) for record in records] == [compared(record) for record in reference]
        assert digest(load_tensors(self.folder / "run" / "weights.safetensors")) == digest(reference[-1].state)


@pytest.fixture(scope="module")
def site(loopback: Loopback) -> Site:
    """Return the one federation, whose run goes on from test to test."""
    return Site(loopback)


def test_a_run_survives_the_server(site: Site) -> None:
    """ServerApp and SuperLink are killed: each time it goes on, and nodes come back by themselves, with their keys."""
    loopback = site.loopback
    first = site.run("first")
    site.wait_for_a_round()
    for process in loopback.descendants(loopback.superlink, "flwr-serverapp"):
        os.kill(process.pid, signal.SIGKILL)
    assert first.wait(timeout=600) == 1

    second = site.run("second")
    site.wait_for_a_round()
    loopback.kill(loopback.superlink)
    assert second.wait(timeout=600) == 1
    assert f"'feddecorr flower run {site.folder / 'app'} lab' continues" in site.printed("second")
    loopback.superlink = loopback.start_superlink()
    loopback.wait_for(lambda: loopback.ask(loopback.port, "/health") == 200)
    assert [node.poll() for node in site.nodes] == [None] * CLIENTS


def test_the_examples_run_as_they_say(site: Site, tmp_path: Path) -> None:
    """From a directory that has nothing to do with them: one as it lies there, the other copied into a user's app."""
    ran = site.loopback.flwr("run", EXAMPLES / "flower_app", "lab", "--stream", "--run-config", "num-server-rounds=1")
    assert re.search(r"^1 \{.*'global_effective_rank'", ran.stdout, re.M), ran.stdout
    own = shutil.copytree(EXAMPLES / "flower_app", tmp_path / "own")
    shutil.copy(EXAMPLES / "flower_client.py", own)
    text = (own / "pyproject.toml").read_text().replace("client_app:app", "flower_client:app")
    (own / "pyproject.toml").write_text(text)
    server = (
        (own / "server_app.py").read_text().replace("from task import Net", "from flower_client import build as Net")
    )
    (own / "server_app.py").write_text(server)
    settings = "num-server-rounds=1 fraction-evaluate=0.0"
    ran = site.loopback.flwr("run", own, "lab", "--stream", "--run-config", settings)
    assert re.search(rf"Received {CLIENTS} results and 0 failures", ran.stdout), ran.stdout


def test_a_run_survives_a_node_and_an_interrupt(site: Site) -> None:
    """It is killed while it trains. The round ends without it, and later ones begin without it, until it is back.

    A node with another registered key that claims to be it takes no part meanwhile. After all that came before, too,
    all rounds have the bits of serial.
    """
    loopback, directory = site.loopback, site.directory
    third = site.run("third")
    site.wait_for_a_round()
    assert not any(record.missing for record in directory.rounds())
    loopback.wait_for(lambda: loopback.descendants(site.nodes[1], "flwr-clientapp"))
    loopback.kill(site.nodes[1])
    # Meanwhile, another run asks for one client more than there are nodes.
    site.write_app("more", f"clients={CLIENTS + 1}", "missing=fail", "engine.wait=1", out="no-run")
    assert site.run("more", app="more").wait(timeout=600) == 1
    reported = site.printed("more")
    assert re.search(rf"waiting for clients? (\d, )*{CLIENTS}, at most 1 seconds", reported)
    assert re.search(
        rf"clients? (\d, )*{CLIENTS} of {CLIENTS + 1} did not connect within engine.wait=1 seconds", reported
    )
    assert not (site.folder / "no-run").exists()
    loopback.wait_for(lambda: any(record.missing for record in directory.rounds()))
    impostor = site.start_node(1, key=IMPOSTOR)
    loopback.wait_for(lambda: "is left out: client 1 belongs to the key" in site.printed("third"))
    loopback.kill(impostor)
    assert directory.rounds()[-1].missing, "the number is not the impostor's"
    # It comes back, with what its client remembers.
    site.start_node(1)
    last = directory.finished_rounds()
    loopback.wait_for(lambda: any(not record.missing for record in directory.rounds()[last:]))
    site.interrupt(third, "third")
    site.check_bits()

    # What is done is not done again, and a run that ends well says so.
    site.write_app("app", "rounds=1")
    assert site.run("last").wait(timeout=600) == 0
