"""Clients that live apart: each in a process that was given its own shard and nothing else, reached by bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection

import torch

from feddecorr.config.experiment import Experiment
from feddecorr.core.client_memory import Memories
from feddecorr.core.messages import Broadcast, Failure, Update, from_bytes, pack, to_bytes, unpack
from feddecorr.core.states import State
from feddecorr.data.dataset import Images
from feddecorr.engines.processes import context
from feddecorr.server.federation import Federation, RunClients, Simulation
from feddecorr.training.client import Client
from feddecorr.training.shards import Shard
from feddecorr.training.task import Task


class Apart:
    """One process for each client of an experiment's split; it lives over many tasks on the same split."""

    def __init__(self, experiment: Experiment) -> None:
        self._simulation = Simulation(experiment)
        self._processes, self._pipes = [], []
        for number in range(len(self._simulation.shards)):
            images = self._simulation.shards[number].images
            mine, theirs = context().Pipe()
            self._processes.append(context().Process(target=serve, args=(theirs,), daemon=True))
            self._processes[-1].start()
            theirs.close()
            mine.send_bytes(pack({"shard": {"pixels": images.pixels, "labels": images.labels}}, {"client": number}))
            self._pipes.append(mine)

    def connect(self, experiment: Experiment) -> Connected:
        """Give everybody the task."""
        known = self._simulation.federation
        federation = replace(known, task=replace(known.task, experiment=experiment), test=None, data=None, split=None)
        return Connected(federation, self._pipes)

    def close(self) -> None:
        """End all processes."""
        for process in self._processes:
            process.kill()
            process.join()


class Connected:
    """A connection: it sends bytes and gets bytes; what clients remember stays with them."""

    def __init__(self, federation: Federation, pipes: Sequence[Connection]) -> None:
        self.federation = federation
        self._pipes = pipes

    @contextmanager
    def open(self, memories: Memories) -> Iterator[RunClients]:
        """Send the task."""
        task = json.dumps(self.federation.task.to_dict()).encode()
        for pipe in self._pipes:
            pipe.send_bytes(task)
        yield self._run

    def _run(self, broadcast: Broadcast, clients: Sequence[int]) -> Iterator[Update | Failure]:
        content = to_bytes(broadcast)
        for client in clients:
            self._pipes[client].send_bytes(content)
        for client in clients:
            yield from_bytes(Update, self._pipes[client].recv_bytes())


def serve(pipe: Connection) -> None:
    """Be one client: take the shard, then tasks and broadcasts as they come."""
    states, note = unpack(pipe.recv_bytes())
    shard = Shard(note["client"], Images(**states["shard"]))
    torch.set_num_threads(1)
    client, memory = None, State()
    while True:
        content = pipe.recv_bytes()
        if content.startswith(b"{"):
            client, memory = Client(Task.from_dict(json.loads(content), trust=True)), {}
            continue
        assert client is not None
        update, memory = client(from_bytes(Broadcast, content), shard, memory)
        pipe.send_bytes(to_bytes(update))
