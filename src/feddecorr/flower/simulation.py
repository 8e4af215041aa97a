"""Flower's simulation as seen from the run's process: broadcasts go in and replies come out, all as bytes.

Three processes: this one; the supervisor, which ends everything when this one ends or is killed; and
`simulation_app`, in which Flower's ServerApp drives Ray. So neither Flower nor Ray is imported here.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

from feddecorr.core.client_memory import Memories
from feddecorr.core.files import save_tensors, write_json
from feddecorr.core.messages import Broadcast, Failure, Update, to_bytes
from feddecorr.core.trust import VARIABLE
from feddecorr.errors import RunError, UserError
from feddecorr.flower.replies import read_reply
from feddecorr.server.federation import RunClients
from feddecorr.training.shards import Shards
from feddecorr.training.task import Task

HOME = "FEDDECORR_SIMULATION"
"""The environment variable by which the supervisor tells nodes the folder of the simulation."""

SHARDS = "shards.safetensors"
"""The file with all clients' images, in the folder of the simulation."""

SUPERVISOR = Path(__file__).with_name("supervisor.py")

MAX_PATH = 40
"""Length of the folder's path: Ray's sockets lie deep in it, and a socket's path has at most 107 characters."""

SIMULATION_APP = "feddecorr.flower.simulation_app"
"""The module that the supervisor runs."""

LOG_LINES = 30
"""Lines of each of Flower's logs that are shown when it fails."""


@contextmanager
def start_simulation(shards: Shards, workers: int) -> Iterator[FlowerSimulation]:
    """Start Flower's simulation with a node for each client, in its own folder; leaving the context ends all of it."""
    process = subprocess.Popen(  # noqa: S603 - our own
        [sys.executable, "-P", str(SUPERVISOR), SIMULATION_APP],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path),
            VARIABLE: "*",  # the user of a simulation has named all of its code
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # an interrupt at the terminal reaches only the run
    )
    try:
        home = _home(process)
        _write_federation(home, shards, workers)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(home / "socket"))
            listener.listen()
            _begin(process)
            with _accept(listener, home) as connection:
                yield FlowerSimulation(connection, home)
    finally:
        process.communicate()  # closes its standard input, on which the supervisor ends everything and exits


def _home(process: subprocess.Popen[str]) -> Path:
    """Return the folder that the supervisor created, and will remove."""
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    home = Path(process.stdout.readline().rstrip("\n"))
    if len(str(home)) > MAX_PATH:
        raise UserError(f"Ray needs a shorter folder for temporary files than {home.parent}: set TMPDIR")
    return home


def _begin(process: subprocess.Popen[str]) -> None:
    """Tell the supervisor to start the simulation."""
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    process.stdin.write("\n")
    process.stdin.flush()


def _write_federation(home: Path, shards: Shards, workers: int) -> None:
    """Write the images and the size of the federation."""
    images = {"pixels": shards.images.pixels, "labels": shards.images.labels}
    save_tensors(home / SHARDS, {**images, "order": shards.order, "bounds": shards.bounds})
    write_json(home / "federation.json", {"clients": len(shards), "workers": min(workers, len(shards))})


def _accept(listener: socket.socket, home: Path) -> Connection:
    """Wait for Flower's ServerApp, unless the simulation ends first."""
    listener.settimeout(0.1)
    while True:
        try:
            accepted, _ = listener.accept()
        except TimeoutError:
            if (home / "ended").exists():
                _fail(home)
            continue
        accepted.setblocking(True)
        return Connection(accepted.detach())


def _fail(home: Path) -> NoReturn:
    """Report an unexpected end, with Flower's own logs."""
    logs = [file.read_text(errors="replace").splitlines()[-LOG_LINES:] for file in sorted(home.glob("*.log"))]
    lines = "\n".join(["Flower's log ends with:", *(line for log in logs for line in log)])
    raise RunError("Flower's simulation ended before the run did") from RuntimeError(lines)


class FlowerSimulation:
    """The connection to a simulation; it serves one task after another on the same split."""

    def __init__(self, connection: Connection, home: Path) -> None:
        self._connection = connection
        self.home = home
        self._pending = 0  # replies that are still to come
        self._receive()  # all nodes are ready

    def run_clients(self, task: Task, memories: Memories) -> RunClients:
        """Return the function that runs the clients of a task, with their states in `memories`."""
        config = {"task": json.dumps(task.to_dict()), "run": str(memories.directory.path.absolute())}
        return partial(self._run, config)

    def _run(self, config: dict[str, str], broadcast: Broadcast, clients: Sequence[int]) -> Iterator[Update | Failure]:
        """Yield the clients' answers in their order, whichever arrives first."""
        while self._pending:  # the last round was not read to its end
            self._next_reply(broadcast.round)
        now = {"round": broadcast.round, "before": broadcast.round, "counted": 0, "evidence": 0}
        request = {"clients": list(clients), "config": {**config, **now}}
        self._send(json.dumps(request).encode(), to_bytes(broadcast))
        self._pending = len(clients)
        finished: dict[int, Update | Failure] = {}
        for client in clients:
            while client not in finished:
                replied, answer = self._next_reply(broadcast.round)
                finished[replied] = answer
            yield finished.pop(client)

    def _next_reply(self, number: int) -> tuple[int, Update | Failure]:
        header, content = json.loads(self._receive()), self._receive()
        client = header["client"]
        self._pending -= 1
        if header["cause"]:
            return client, Failure(number, client, header["cause"])
        return client, read_reply(content, header["kind"], number=number, client=client)

    def _send(self, *frames: bytes) -> None:
        try:
            for frame in frames:
                self._connection.send_bytes(frame)
        except OSError:
            _fail(self.home)

    def _receive(self) -> bytes:
        try:
            return self._connection.recv_bytes()
        except (EOFError, OSError):
            _fail(self.home)
