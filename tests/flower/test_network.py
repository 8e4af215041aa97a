"""A real deployment: a SuperLink and three SuperNodes with TLS and keys, each with only its own images."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from loopback import Loopback, write_node_keys
from small import digest, small, without_time, write_settings

from feddecorr.engines.engine import RunClients
from feddecorr.federation import Simulation
from feddecorr.files import load_tensors
from feddecorr.messages import Broadcast, Failure, Update
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.memories import Memories
from feddecorr.runs.pipeline import run
from feddecorr.runs.record import Record

CLIENTS = 3
WORDS = [f"clients={CLIENTS}", "method=scaffold", "regularizers=feddecorr", "missing=continue", "rounds=50"]


class Without(Simulation):
    """A simulation in which some clients are missing in some rounds."""

    missing: dict[int, list[int]]

    @contextmanager
    def open(self, memories: Memories) -> Iterator[RunClients]:
        """Leave them out."""
        with super().open(memories) as run_clients:

            def run_some(broadcast: Broadcast, clients: Sequence[int]) -> Iterator[Update | Failure]:
                left_out = self.missing.get(broadcast.round, [])
                yield from run_clients(broadcast, [client for client in clients if client not in left_out])
                yield from (Failure(broadcast.round, client, "left out") for client in left_out)

            yield run_some


def expected(missing: dict[int, list[int]], rounds: int) -> list[Record]:
    """Return what the serial engine makes of it."""
    experiment = small(*WORDS, f"rounds={rounds}")
    simulation = Without(experiment)
    simulation.missing = missing
    return list(run(experiment, through=simulation))


def compared(record: Record) -> dict[str, object]:
    """Return what must be the same, whoever was missing for whatever reason."""
    return without_time(replace(record, missing=dict.fromkeys(record.missing, "")).to_dict())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where everything is: the nodes' images, keys, the run."""
    return tmp_path_factory.mktemp("network")


@pytest.fixture(scope="module")
def loopback(folder: Path) -> Iterator[Loopback]:
    """Return the SuperLink, with keys of three nodes."""
    found = Loopback(folder)
    try:
        for client in range(CLIENTS):
            found.register(client)
        yield found
    finally:
        found.close()


def write_images(folder: Path) -> None:
    """Give every node its own images, and the server the test images."""
    simulation = Simulation(small(*WORDS))
    test = {"x_test": simulation.dataset.test.pixels, "y_test": simulation.dataset.test.labels}
    for client in range(CLIENTS):
        images = simulation.shards[client].images
        train = {"x_train": images.pixels, "y_train": images.labels}
        arrays = {name: tensor.numpy() for name, tensor in {**train, **test}.items()}
        arrays["classes"] = np.array(simulation.task.classes)
        np.savez(folder / f"images{client}.npz", allow_pickle=False, **arrays)


def test_only_nodes_come_through_the_gate(loopback: Loopback, folder: Path) -> None:
    """On the SuperLink itself, anyone with the authority's certificate can register a key; not through the gate."""
    write_node_keys(folder, 66)
    assert loopback.flwr("supernode", "register", folder / "node66.pub", "gate").returncode != 0
    closed = ["/v1/control/start-run", "/v1/runtime/pull-messages", "//v1/control/x", "/v1/fleet/../control/x", "/"]
    assert [loopback.ask(loopback.gate, path) for path in closed] == [403] * len(closed)
    assert loopback.flwr("supernode", "register", folder / "node66.pub", "lab").returncode == 0


def test_a_federation_over_sockets_survives_what_can_happen(loopback: Loopback, folder: Path) -> None:
    """Its bits are those of serial; so after the ServerApp was killed, and after a node was killed and came back."""
    write_images(folder)
    out = folder / "run"
    settings = write_settings(folder / "settings.json")
    command: list[str | Path] = [sys.executable, "-m", "feddecorr", "flower", "app", folder / "app"]
    words: list[str | Path] = [settings, *WORDS, "data=nodes"]
    test: list[str | Path] = ["--out", out, "--test", f"npz:{folder / 'images0.npz'}"]
    write_app = partial(subprocess.run, check=True, env=loopback.environment, cwd=folder, capture_output=True)
    write_app([*command, *words, *test])
    configs = [
        {"client": client, "data": f"npz:{folder}/images{client}.npz", "memory": f"{folder}/disk{client}"}
        for client in range(CLIENTS)
    ]
    nodes = [loopback.start_node(client, config) for client, config in enumerate(configs)]
    directory = RunDirectory(out)

    # The ServerApp is killed in the second round. `feddecorr flower run` says so by its exit code; again, it goes on.
    first = start_run(loopback, "first")
    loopback.wait_for(lambda: directory.finished_rounds() == 1)
    for process in loopback.descendants(loopback.superlink, "flwr-serverapp"):
        os.kill(process.pid, signal.SIGKILL)
    assert first.wait(timeout=600) == 1
    assert directory.finished_rounds() == 1
    start_run(loopback, "second")
    loopback.wait_for(lambda: directory.finished_rounds() >= 2)
    straight = expected({}, 2)
    assert [compared(record) for record in directory.rounds()[:2]] == [compared(record) for record in straight]

    # A node is killed while it trains. The round ends without it, and later ones begin without it.
    loopback.wait_for(lambda: loopback.descendants(nodes[1], "flwr-clientapp"))
    loopback.kill(nodes[1])
    # Meanwhile, another run asks for one client more than there are nodes.
    write_app([*command[:-1], folder / "more", *words, "clients=4", "engine.wait=1", "--out", folder / "no-run"])
    assert start_run(loopback, "more", app="more").wait(timeout=600) == 1
    told = (folder / "logs" / "more.txt").read_text()
    assert re.search(r"waiting for clients? (1, )?3, at most 1 seconds", told)
    assert re.search(r"clients? (1, )?3 of 4 did not connect within engine.wait=1 seconds", told)
    assert not (folder / "no-run").exists()
    loopback.wait_for(lambda: any(record.missing for record in directory.rounds()))
    # It comes back, with what its client remembers.
    loopback.start_node(1, configs[1])
    last = directory.finished_rounds()
    loopback.wait_for(lambda: any(not record.missing for record in directory.rounds()[last:]))
    for process in loopback.descendants(loopback.superlink, "flwr-serverapp"):
        os.kill(process.pid, signal.SIGKILL)

    records = directory.rounds()
    missing = {record.round: list(record.missing) for record in records}
    assert [client for clients in missing.values() for client in clients] == [1] * sum(map(len, missing.values()))
    assert all(not record.notes for record in records), "nothing was forgotten"
    reference = expected(missing, len(records))
    assert [compared(record) for record in records] == [compared(record) for record in reference]
    assert digest(load_tensors(out / "weights.safetensors")) == digest(reference[-1].state)

    # What is done is not done again, and a run that ends well says so.
    write_app([*command, *words, "rounds=1", *test])
    assert start_run(loopback, "last").wait(timeout=600) == 0


def start_run(loopback: Loopback, name: str, *, app: str = "app") -> subprocess.Popen[bytes]:
    """Start the app as a user would; its output goes to a log of that name."""
    return loopback.start(name, "python", "-m", "feddecorr", "flower", "run", loopback.folder / app, "lab")
