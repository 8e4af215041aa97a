"""The process of a pool's worker: it plays the clients it is told to, until its connection closes."""

from __future__ import annotations

import signal
import traceback
from dataclasses import dataclass
from functools import cached_property
from multiprocessing.connection import Connection

import torch
from torch import Tensor

from feddecorr.client import Client
from feddecorr.engines.memories import Memories
from feddecorr.engines.parcel import Layout, shared_memory
from feddecorr.federation import Federation
from feddecorr.machine import keep_freed_memory
from feddecorr.messages import Broadcast


@dataclass(frozen=True)
class NewRound:
    """The broadcast of a round lies in `flat`."""

    round: int
    layout: Layout
    flat: Tensor


@dataclass(frozen=True)
class Play:
    """Train as this client, and leave the update in the worker's piece of memory of that number."""

    client: int
    slot: int


@dataclass(frozen=True)
class Done:
    """The update of a client lies in the slot; `memory` is the slot itself when it is new.

    The layout is only sent when it is not that of the update before.
    """

    client: int
    examples: int
    amount: float
    metrics: dict[str, float]
    layout: Layout | None
    slot: int
    memory: Tensor | None


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
            player.broadcast = Broadcast(round=order.round, **order.layout.read(order.flat))
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
        self.layout: Layout | None = None
        self.slots: dict[int, Tensor] = {}

    @cached_property
    def client(self) -> Client:
        """Built with the first order, so that what goes wrong is reported like any failure of a client."""
        return Client(self.federation)

    def play(self, order: Play) -> Done:
        """Train as the client, in the slot itself once it is known how an update is laid out."""
        now = self.broadcast.round
        slot = self.slots.get(order.slot)
        room = self.layout.read(slot) if self.layout is not None and slot is not None else {}
        update, memory = self.client(self.broadcast, order.client, self.memories.load(order.client, now), room)
        self.memories.save(order.client, now, memory)
        sections = {"weights": update.weights, "buffers": update.buffers, "extra": update.extra}
        layout = Layout.of(sections)
        fresh = slot is None or len(slot) < layout.size
        if slot is None or fresh:
            slot = self.slots[order.slot] = shared_memory(layout.size)
        layout.write(slot, sections)
        news, self.layout = layout != self.layout, layout
        return Done(
            client=update.client,
            examples=update.examples,
            amount=update.amount,
            metrics=update.metrics,
            layout=layout if news else None,
            slot=order.slot,
            memory=slot if fresh else None,
        )
