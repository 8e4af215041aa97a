"""A simulation on Flower, seen from the run's process: broadcasts go in, answers come out, all as bytes."""

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
from feddecorr.core.messages import Broadcast, Failure, Update
from feddecorr.core.trust import VARIABLE
from feddecorr.core.wire import to_bytes
from feddecorr.errors import RunError, UserError
from feddecorr.flower import keeper
from feddecorr.flower.answers import read_answer
from feddecorr.flower.node import SHARDS
from feddecorr.server.federation import RunClients
from feddecorr.training.shards import Shards
from feddecorr.training.task import Task

LONGEST_PATH = 40
"""Letters in the name of the folder: Ray's sockets lie deep in it, and the path of a socket has 107 at most."""

RELAY = "feddecorr.flower.relay"
"""What the keeper runs."""

TAIL = 30
"""Lines of each of Flower's logs that are shown when it fails."""


@contextmanager
def simulated(shards: Shards, workers: int) -> Iterator[Session]:
    """Start Flower's simulation with a node for each client, in a folder of its own; leaving ends all of it."""
    process = subprocess.Popen(  # noqa: S603 - our own
        [sys.executable, "-P", keeper.__file__, RELAY],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path),
            VARIABLE: "*",  # who runs a simulation has named all of its code
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # an interrupt at the terminal is for the run alone
    )
    try:
        home = _home(process)
        _write(home, shards, workers)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(home / "relay"))
            listener.listen()
            _begin(process)
            with _accept(listener, home) as line:
                yield Session(line, home)
    finally:
        process.communicate()  # closes its standard input; then it ends everything, itself at last


def _home(process: subprocess.Popen[str]) -> Path:
    """Return the folder that the keeper made, and will remove."""
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    home = Path(process.stdout.readline().rstrip("\n"))
    if len(str(home)) > LONGEST_PATH:
        raise UserError(f"Ray needs a shorter folder for temporary files than {home.parent}: set TMPDIR")
    return home


def _begin(process: subprocess.Popen[str]) -> None:
    """Let the keeper start the simulation."""
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    process.stdin.write("\n")
    process.stdin.flush()


def _write(home: Path, shards: Shards, workers: int) -> None:
    """Write the images and the size of the federation."""
    images = {"pixels": shards.images.pixels, "labels": shards.images.labels}
    save_tensors(home / SHARDS, {**images, "order": shards.order, "bounds": shards.bounds})
    write_json(home / "federation.json", {"clients": len(shards), "workers": min(workers, len(shards))})


def _accept(listener: socket.socket, home: Path) -> Connection:
    """Wait for Flower's ServerApp, as long as there is hope."""
    listener.settimeout(0.1)
    while True:
        try:
            line, _ = listener.accept()
        except TimeoutError:
            if (home / "ended").exists():
                _fail(home)
            continue
        line.setblocking(True)
        return Connection(line.detach())


def _fail(home: Path) -> NoReturn:
    """Say what is known of an end that nobody asked for."""
    logs = [file.read_text(errors="replace").splitlines()[-TAIL:] for file in sorted(home.glob("*.log"))]
    told = "\n".join(["Flower's log ends with:", *(line for log in logs for line in log)])
    raise RunError("Flower's simulation ended before the run did") from RuntimeError(told)


class Session:
    """The line to a simulation; it serves one task after another on the same split."""

    def __init__(self, line: Connection, home: Path) -> None:
        self._line = line
        self.home = home
        self._owed = 0  # answers that are on their way
        self._receive()  # everybody is there

    def clients_of(self, task: Task, memories: Memories) -> RunClients:
        """Return what runs the clients by this task, with what they remember there."""
        note = {"task": json.dumps(task.to_dict()), "run": str(memories.directory.path.absolute())}
        return partial(self._run, note)

    def _run(self, note: dict[str, str], broadcast: Broadcast, clients: Sequence[int]) -> Iterator[Update | Failure]:
        """Yield what comes of the clients in their order, whoever is first."""
        while self._owed:  # nobody read the last round to its end
            self._next_answer(broadcast.round)
        now = {"round": broadcast.round, "before": broadcast.round, "counted": 0, "evidence": 0}
        order = {"clients": list(clients), "note": {**note, **now}}
        self._send(json.dumps(order).encode(), to_bytes(broadcast))
        self._owed = len(clients)
        finished: dict[int, Update | Failure] = {}
        for client in clients:
            while client not in finished:
                answered, answer = self._next_answer(broadcast.round)
                finished[answered] = answer
            yield finished.pop(client)

    def _next_answer(self, number: int) -> tuple[int, Update | Failure]:
        said, content = json.loads(self._receive()), self._receive()
        self._owed -= 1
        if said["cause"]:
            return said["client"], Failure(number, said["client"], said["cause"])
        return said["client"], read_answer(content, said["kind"], number=number, client=said["client"])

    def _send(self, *frames: bytes) -> None:
        try:
            for frame in frames:
                self._line.send_bytes(frame)
        except OSError:
            _fail(self.home)

    def _receive(self) -> bytes:
        try:
            return self._line.recv_bytes()
        except (EOFError, OSError):
            _fail(self.home)
