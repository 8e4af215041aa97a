"""The engine interface: it maps a round's clients to their updates and keeps client state."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, ClassVar

from feddecorr.core.registry import Config

if TYPE_CHECKING:
    from feddecorr.core.client_memory import Memories
    from feddecorr.server.federation import RunClients
    from feddecorr.training.shards import Shards
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
