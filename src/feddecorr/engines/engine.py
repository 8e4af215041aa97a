"""What an engine is: it maps a round's clients to their updates and keeps what clients remember."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from feddecorr.messages import Broadcast, Update
from feddecorr.settings.kinds import Kind

if TYPE_CHECKING:
    from feddecorr.federation import Federation
    from feddecorr.runs.memories import Memories

RunClients = Callable[[Broadcast, Sequence[int]], Iterator[Update]]
"""Trains the given clients and yields their updates in the order of the clients."""


class Engine(Kind):
    """Who runs the clients; it knows no method, and the results do not depend on it."""

    def open(self, federation: Federation, memories: Memories) -> AbstractContextManager[RunClients]:
        """Start what the engine needs; leaving the context ends it."""
        raise NotImplementedError
