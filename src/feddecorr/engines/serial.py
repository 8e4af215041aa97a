"""One client after another, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from feddecorr.client import Client
from feddecorr.engines.engine import Engine, RunClients, failure
from feddecorr.messages import Broadcast, Failure, Update

if TYPE_CHECKING:
    from feddecorr.federation import Shards, Task
    from feddecorr.runs.memories import Memories


class Serial(Engine):
    """Runs one client after another in this process."""

    @contextmanager
    def open(self, task: Task, shards: Shards, memories: Memories) -> Iterator[RunClients]:
        """Build the one client that plays them all."""
        play = Client(task)

        def run_clients(broadcast: Broadcast, clients: Sequence[int]) -> Iterator[Update | Failure]:
            for client in clients:
                try:
                    update, memory = play(broadcast, shards[client], memories.load(client, broadcast.round))
                except Exception as error:  # whatever a client raises is reported, not swallowed
                    yield failure(broadcast.round, client, error)
                    continue
                memories.save(client, broadcast.round, memory)
                yield update

        yield run_clients
