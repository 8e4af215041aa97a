"""Where clients of this machine play, in whichever process: what they hold and remember is fetched, and kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from feddecorr.core.messages import Broadcast, Failure, Update, failure
from feddecorr.training.batched.group import ClientGroup
from feddecorr.training.client import NO_OUT_BUFFERS, Client, OutBuffers, Outcome

if TYPE_CHECKING:
    from feddecorr.core.client_memory import Memories
    from feddecorr.core.states import State
    from feddecorr.training.shards import Shard, Shards
    from feddecorr.training.task import Task


class Stage:
    """Plays groups of clients, one group after another."""

    def __init__(self, task: Task, shards: Shards, memories: Memories) -> None:
        self.task, self.shards, self.memories = task, shards, memories

    @cached_property
    def client(self) -> Client:
        """Built with the first group, so that what goes wrong is reported like any failure of a client."""
        return Client(self.task)

    @cached_property
    def group(self) -> ClientGroup:
        """Who plays several at once."""
        return ClientGroup(self.client)

    def play(
        self, broadcast: Broadcast, group: Sequence[int], out_buffers: Mapping[int, OutBuffers] | None = None
    ) -> Iterator[Update | Failure]:
        """Yield what comes of the clients of one group, in their order."""
        outcomes: dict[int, Outcome] = {}
        held = []
        for client in group:
            try:
                memory = self.memories.load(client, broadcast.round)
                held.append((self.shards[client], memory, (out_buffers or {}).get(client, NO_OUT_BUFFERS)))
            except Exception as error:  # whatever a client raises is reported, not swallowed
                outcomes[client] = error
        try:
            outcomes |= self._train(broadcast, held)
        except Exception as error:  # it is nobody's own
            outcomes |= {shard.client: error for shard, _, _ in held}
        for client in group:
            answer = self._keep(client, broadcast.round, outcomes[client])
            if answer.client == client:  # or else it is part of another's
                yield answer

    def _train(self, broadcast: Broadcast, held: Sequence[tuple[Shard, State, OutBuffers]]) -> Mapping[int, Outcome]:
        if self.task.together.clients > 1:
            return self.group(broadcast, held)
        return {shard.client: self.client(broadcast, shard, memory, out_buffers) for shard, memory, out_buffers in held}

    def _keep(self, client: int, now: int, outcome: Outcome) -> Update | Failure:
        if isinstance(outcome, Exception):
            return failure(now, client, outcome)
        update, memory = outcome
        self.memories.save(client, now, memory)
        return update
