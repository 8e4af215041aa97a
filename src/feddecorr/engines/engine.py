"""The engine interface, and clients one after another in this process, the part that every local engine shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import ClassVar

from feddecorr.core import devices
from feddecorr.core.client_memory import Memories
from feddecorr.core.messages import Broadcast, Failure, Update, failure
from feddecorr.core.registry import Config
from feddecorr.core.states import State
from feddecorr.errors import RunError
from feddecorr.server.federation import RunClients
from feddecorr.training.batched.group import ClientGroup
from feddecorr.training.client import NO_OUT_BUFFERS, Client, OutBuffers, Outcome
from feddecorr.training.shards import Shard, Shards
from feddecorr.training.task import Task


class Engine(Config):
    """An execution backend for clients; it knows no method, and the results do not depend on it."""

    batches_clients: ClassVar[bool] = True
    """Whether it can train several clients in one batch (`training.clients_per_batch`)."""

    def check(self) -> None:
        """Raise if something is missing that the engine needs."""

    def open(self, task: Task, shards: Shards, memories: Memories) -> AbstractContextManager[RunClients]:
        """Start the engine; leaving the context stops it."""
        raise NotImplementedError

    def parallel_jobs(self, threads: int) -> int:  # noqa: ARG002 - for parallel engines
        """Return how many jobs of that many threads run in parallel; the server evaluates with as many."""
        return 1


class ClientRunner:
    """Runs groups of clients in this process: loads shard and memory, trains, saves the memory."""

    def __init__(self, task: Task, shards: Shards, memories: Memories) -> None:
        self.task, self.shards, self.memories = task, shards.near(task.device), memories

    @cached_property
    def client(self) -> Client:
        """Built with the first group, so that an error is reported like any failure of a client."""
        return Client(self.task)

    @cached_property
    def group(self) -> ClientGroup:
        """The same client, for several at once."""
        return ClientGroup(self.client)

    def run_group(
        self, broadcast: Broadcast, group: Sequence[int], out_buffers: Mapping[int, OutBuffers] | None = None
    ) -> Iterator[Update | Failure]:
        """Yield the updates or failures of one group, in the order of its clients."""
        outcomes: dict[int, Outcome] = {}
        loaded = []
        for client in group:
            try:
                memory = self.memories.load(client, broadcast.round)
                loaded.append((self.shards[client], memory, (out_buffers or {}).get(client, NO_OUT_BUFFERS)))
            except Exception as error:  # any client error is reported, not swallowed
                outcomes[client] = error
        try:
            outcomes |= self._train(broadcast, loaded)
        except Exception as error:  # an error of the whole group
            outcomes |= {shard.client: error for shard, _, _ in loaded}
        for client in group:
            answer = self._save(client, broadcast.round, outcomes[client])
            if answer.client == client:  # otherwise it is merged into another client's update
                yield answer

    def _train(self, broadcast: Broadcast, loaded: Sequence[tuple[Shard, State, OutBuffers]]) -> Mapping[int, Outcome]:
        if self.task.together.clients > 1:
            return self.group(broadcast, loaded)
        return {shard.client: self.client(broadcast, shard, memory, buffers) for shard, memory, buffers in loaded}

    def _save(self, client: int, number: int, outcome: Outcome) -> Update | Failure:
        if isinstance(outcome, Exception):
            if helps := devices.what_helps(outcome, self.task.device):
                outcome = RunError(f"{helps} ({str(outcome).splitlines()[0]})")
            return failure(number, client, outcome)
        update, memory = outcome
        self.memories.save(client, number, memory)
        return update


class Serial(Engine):
    """Runs one client after another in this process."""

    @contextmanager
    def open(self, task: Task, shards: Shards, memories: Memories) -> Iterator[RunClients]:
        """Create one runner for all clients."""
        runner = ClientRunner(task, shards, memories)

        def run_clients(broadcast: Broadcast, clients: Sequence[int]) -> Iterator[Update | Failure]:
            for group in task.groups(clients):
                yield from runner.run_group(broadcast, group)

        yield run_clients
