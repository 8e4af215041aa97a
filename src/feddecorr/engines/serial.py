"""One client after another, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from feddecorr.engines.engine import Engine, RunClients
from feddecorr.engines.stage import Stage
from feddecorr.messages import Broadcast, Failure, Update

if TYPE_CHECKING:
    from feddecorr.federation import Shards, Task
    from feddecorr.runs.memories import Memories


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
