"""The process of a pool's worker: it plays the clients it is told to, until its connection closes."""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from functools import cached_property
from multiprocessing.connection import Connection

import torch

from feddecorr.client import Client
from feddecorr.engines.allocator import keep_freed_memory
from feddecorr.engines.engine import failure
from feddecorr.engines.parcel import Layout, Parcel
from feddecorr.federation import Shards, Task
from feddecorr.messages import Broadcast, Failure, Update
from feddecorr.runs.memories import Memories


@dataclass(frozen=True)
class NewRound:
    """The broadcast of a round lies in the parcel, which is None where it is the same memory as before."""

    round: int
    parcel: Parcel | None


@dataclass(frozen=True)
class Play:
    """Train as this client, and leave the update in the worker's parcel of that number."""

    client: int
    slot: int


@dataclass(frozen=True)
class Done:
    """The update of a client, without its tensors: they lie in the slot, whose parcel is only sent when it is new."""

    update: Update
    slot: int
    parcel: Parcel | None


def work(connection: Connection, task: Task, shards: Shards, memories: Memories) -> None:
    """Answer each `Play` with `Done` or a failure."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process decides what an interrupt means
    keep_freed_memory()
    torch.set_num_threads(task.experiment.training.threads)  # threads that wait for each other waste cores
    player = Player(task, shards, memories)
    while True:
        try:
            order = connection.recv()
        except (EOFError, OSError):
            return
        if isinstance(order, NewRound):
            player.hear(order)
            continue
        try:
            answer: Done | Failure = player.play(order)
        except Exception as error:  # whatever a client raises is reported, not swallowed
            answer = failure(player.broadcast.round, order.client, error)
        try:
            connection.send(answer)
        except OSError:
            return


class Player:
    """Plays clients, and writes their updates to memory that the main process sees."""

    broadcast: Broadcast

    def __init__(self, task: Task, shards: Shards, memories: Memories) -> None:
        self.task = task
        self.shards = shards
        self.memories = memories
        self.slots: dict[int, Parcel] = {}
        self.heard = Parcel(Layout.of({}))

    @cached_property
    def client(self) -> Client:
        """Built with the first order, so that what goes wrong is reported like any failure of a client."""
        return Client(self.task)

    def hear(self, news: NewRound) -> None:
        """Take in the broadcast."""
        self.heard = news.parcel or self.heard
        self.broadcast = Broadcast(round=news.round, **self.heard.states)

    def play(self, order: Play) -> Done:
        """Train as the client, in the slot itself once it is there."""
        now = self.broadcast.round
        slot = self.slots.get(order.slot)
        remembered = self.memories.load(order.client, now)
        shard = self.shards[order.client]
        update, memory = self.client(self.broadcast, shard, remembered, slot.states if slot else {})
        self.memories.save(order.client, now, memory)
        sections = {"weights": update.weights, "buffers": update.buffers, "extra": update.extra}
        layout = Layout.of(sections)
        new = None
        if slot is None or slot.layout != layout:
            slot = new = self.slots[order.slot] = Parcel(layout)
        slot.fill(sections)
        return Done(replace(update, weights={}, buffers={}, extra={}), order.slot, new)
