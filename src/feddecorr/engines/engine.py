"""What an engine is: it maps a round's clients to their updates and keeps what clients remember."""

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
    """Who runs the clients; it knows no method, and the results do not depend on it."""

    one_by_one: ClassVar[bool] = False
    """Whether it plays every client by itself, where none can train beside another (`training.clients_per_batch`)."""

    def check(self) -> None:
        """Refuse to begin where something is missing that the engine needs."""

    def open(self, task: Task, shards: Shards, memories: Memories) -> AbstractContextManager[RunClients]:
        """Start what the engine needs; leaving the context ends it."""
        raise NotImplementedError

    def parallel_jobs(self, threads: int) -> int:  # noqa: ARG002 - for engines that do several things at once
        """Return how many pieces of work of so many threads may go on at once; the server evaluates with as many."""
        return 1
