"""One client after another, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from feddecorr.core.messages import Broadcast, Failure, Update
from feddecorr.engines.engine import Engine
from feddecorr.engines.local_clients import Stage
from feddecorr.server.federation import RunClients

if TYPE_CHECKING:
    from feddecorr.core.client_memory import Memories
    from feddecorr.training.shards import Shards
    from feddecorr.training.task import Task


class Serial(Engine):
    """Runs one client after another in this process."""

    @contextmanager
    def open(self, task: Task, shards: Shards, memories: Memories) -> Iterator[RunClients]:
        """Prepare the one stage for them all."""
        stage = Stage(task, shards, memories)

        def run_clients(broadcast: Broadcast, clients: Sequence[int]) -> Iterator[Update | Failure]:
            for group in task.groups(clients):
                yield from stage.play(broadcast, group)

        yield run_clients
