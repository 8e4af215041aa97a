"""Clients that live apart: each in a process that was given its own shard and nothing else, reached by bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

import torch

from feddecorr.config.experiment import Experiment
from feddecorr.core.client_memory import Memories
from feddecorr.core.messages import Broadcast, Failure, Update, from_bytes, pack, to_bytes, unpack
from feddecorr.core.states import State
from feddecorr.data import Images
from feddecorr.server.federation import Federation, RunClients, Simulation
from feddecorr.training.client import Client
from feddecorr.training.shards import Shard
from feddecorr.training.task import Task


def send(pipe: IO[bytes], content: bytes) -> None:
    """Write a message after its length."""
    pipe.write(len(content).to_bytes(8, "little") + content)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes:
    """Read a message."""
    return pipe.read(int.from_bytes(pipe.read(8), "little"))


class Apart:
    """One process for each client of an experiment's split; it lives over many tasks on the same split."""

    def __init__(self, experiment: Experiment) -> None:
        self._simulation = Simulation(experiment)
        self._processes = []
        for number in range(len(self._simulation.shards)):
            images = self._simulation.shards[number].images
            process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self._processes.append(process)
            send(process.stdin, pack({"shard": {"pixels": images.pixels, "labels": images.labels}}, {"client": number}))  # type: ignore[arg-type]  # pipes

    def connect(self, experiment: Experiment) -> Connected:
        """Give everybody the task."""
        known = self._simulation.federation
        federation = replace(known, task=replace(known.task, experiment=experiment), test=None, data=None, split=None)
        return Connected(federation, self._processes)

    def close(self) -> None:
        """End all processes."""
        for process in self._processes:
            process.kill()
            process.communicate()


class Connected:
    """A connection: it sends bytes and gets bytes; what clients remember stays with them."""

    def __init__(self, federation: Federation, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        self.federation = federation
        self._processes = processes

    @contextmanager
    def open(self, memories: Memories) -> Iterator[RunClients]:
        """Send the task."""
        task = json.dumps(self.federation.task.to_dict()).encode()
        for process in self._processes:
            send(process.stdin, task)  # type: ignore[arg-type]  # a pipe
        yield self._run

    def _run(self, broadcast: Broadcast, clients: Sequence[int]) -> Iterator[Update | Failure]:
        content = to_bytes(broadcast)
        for client in clients:
            send(self._processes[client].stdin, content)  # type: ignore[arg-type]  # a pipe
        for client in clients:
            yield from_bytes(Update, receive(self._processes[client].stdout))  # type: ignore[arg-type]  # a pipe


def main() -> None:
    """Be one client: take the shard, then tasks and broadcasts as they come."""
    states, note = unpack(receive(sys.stdin.buffer))
    shard = Shard(note["client"], Images(**states["shard"]))
    torch.set_num_threads(1)
    client, memory = None, State()
    while content := receive(sys.stdin.buffer):
        if content.startswith(b"{"):
            client, memory = Client(Task.from_dict(json.loads(content), trust=True)), {}
            continue
        assert client is not None
        update, memory = client(from_bytes(Broadcast, content), shard, memory)
        send(sys.stdout.buffer, to_bytes(update))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
