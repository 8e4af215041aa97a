"""One client after another, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from feddecorr.client import Client
from feddecorr.engines.engine import Engine, RunClients
from feddecorr.errors import RunError
from feddecorr.messages import Broadcast, Update

if TYPE_CHECKING:
    from feddecorr.federation import Federation
    from feddecorr.runs.memories import Memories


class Serial(Engine):
    """Runs one client after another in this process."""

    @contextmanager
    def open(self, federation: Federation, memories: Memories) -> Iterator[RunClients]:
        """Build the one client that plays them all."""
        play = Client(federation)

        def run_clients(broadcast: Broadcast, clients: Sequence[int]) -> Iterator[Update]:
            for client in clients:
                try:
                    update, memory = play(broadcast, client, memories.load(client, broadcast.round))
                except Exception as error:
                    cause = f"{type(error).__name__}: {error}"
                    raise RunError(f"client {client} failed in round {broadcast.round}: {cause}") from error
                memories.save(client, broadcast.round, memory)
                yield update

        yield run_clients
