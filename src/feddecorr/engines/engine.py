"""What an engine is: it maps a round's clients to their updates and keeps what clients remember."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, ClassVar

from feddecorr.errors import explain_refusal
from feddecorr.messages import Broadcast, Failure, Update
from feddecorr.settings.kinds import Kind

if TYPE_CHECKING:
    from feddecorr.federation import Shards, Task
    from feddecorr.runs.memories import Memories

RunClients = Callable[[Broadcast, Sequence[int]], Iterator[Update | Failure]]
"""Trains the given clients and yields what comes of each, in the order of the clients."""


class Engine(Kind):
    """Who runs the clients; it knows no method, and the results do not depend on it."""

    one_by_one: ClassVar[bool] = False
    """Whether it plays every client by itself, where none can train beside another (`training.together`)."""

    def check(self) -> None:
        """Refuse to begin where something is missing that the engine needs."""

    def open(self, task: Task, shards: Shards, memories: Memories) -> AbstractContextManager[RunClients]:
        """Start what the engine needs; leaving the context ends it."""
        raise NotImplementedError

    def hands(self, threads: int) -> int:  # noqa: ARG002 - for engines that do several things at once
        """Return how many pieces of work of so many threads may go on at once; the server evaluates with as many."""
        return 1


def failure(number: int, client: int, error: Exception) -> Failure:
    """Return what is known of an error in a client's code."""
    said = explain_refusal(error) if isinstance(error, OSError) else str(error)
    return Failure(number, client, f"{type(error).__name__}: {said}", "".join(traceback.format_exception(error)))
