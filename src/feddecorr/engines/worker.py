"""The process of a pool's worker: it plays the clients it is told to, until its connection closes."""

from __future__ import annotations

import signal
import traceback
from dataclasses import dataclass
from functools import cached_property
from multiprocessing.connection import Connection

import torch

from feddecorr.client import Client
from feddecorr.engines.allocator import keep_freed_memory
from feddecorr.engines.parcel import Layout, Parcel
from feddecorr.federation import Federation
from feddecorr.messages import Broadcast
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
    """The update of a client lies in the slot, whose parcel is only sent when it is new."""

    client: int
    examples: int
    amount: float
    metrics: dict[str, float]
    slot: int
    parcel: Parcel | None


@dataclass(frozen=True)
class Failed:
    """The client's code raised."""

    client: int
    cause: str
    trace: str


def work(connection: Connection, federation: Federation, memories: Memories) -> None:
    """Answer each `Play` with `Done` or `Failed`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process decides what an interrupt means
    keep_freed_memory()
    torch.set_num_threads(federation.experiment.training.threads)  # threads that wait for each other waste cores
    player = Player(federation, memories)
    while True:
        try:
            order = connection.recv()
        except (EOFError, OSError):
            return
        if isinstance(order, NewRound):
            player.hear(order)
            continue
        try:
            answer: Done | Failed = player.play(order)
        except Exception as error:  # whatever a client raises is reported, not swallowed
            answer = Failed(order.client, f"{type(error).__name__}: {error}", traceback.format_exc())
        try:
            connection.send(answer)
        except OSError:
            return


class Player:
    """Plays clients, and writes their updates to memory that the main process sees."""

    broadcast: Broadcast

    def __init__(self, federation: Federation, memories: Memories) -> None:
        self.federation = federation
        self.memories = memories
        self.slots: dict[int, Parcel] = {}
        self.heard = Parcel(Layout.of({}))

    @cached_property
    def client(self) -> Client:
        """Built with the first order, so that what goes wrong is reported like any failure of a client."""
        return Client(self.federation)

    def hear(self, news: NewRound) -> None:
        """Take in the broadcast."""
        self.heard = news.parcel or self.heard
        self.broadcast = Broadcast(round=news.round, **self.heard.states)

    def play(self, order: Play) -> Done:
        """Train as the client, in the slot itself once it is there."""
        now = self.broadcast.round
        slot = self.slots.get(order.slot)
        remembered = self.memories.load(order.client, now)
        update, memory = self.client(self.broadcast, order.client, remembered, slot.states if slot else {})
        self.memories.save(order.client, now, memory)
        sections = {"weights": update.weights, "buffers": update.buffers, "extra": update.extra}
        layout = Layout.of(sections)
        new = None
        if slot is None or slot.layout != layout:
            slot = new = self.slots[order.slot] = Parcel(layout)
        slot.fill(sections)
        return Done(update.client, update.examples, update.amount, update.metrics, order.slot, new)
