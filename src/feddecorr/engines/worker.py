"""The process of a pool's worker: it plays the clients it is told to, until its connection closes."""

from __future__ import annotations

import signal
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection

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
    """Train as this client, and leave the update in one of the worker's two pieces of memory."""

    client: int
    slot: int


@dataclass(frozen=True)
class Done:
    """The update of a client lies in the slot; `memory` is the slot itself when it is new."""

    client: int
    examples: int
    amount: float
    metrics: dict[str, float]
    layout: Layout
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
    play: Client | None = None
    slots: dict[int, Tensor] = {}
    broadcast: Broadcast | None = None
    while True:
        try:
            order = connection.recv()
        except (EOFError, OSError):
            return
        if isinstance(order, NewRound):
            broadcast = Broadcast(round=order.round, **order.layout.read(order.flat))
            continue
        try:
            play = play or Client(federation)
            answer: Done | Failed = _play(play, broadcast, memories, order, slots)
        except Exception as error:  # whatever a client raises is reported, not swallowed
            answer = Failed(order.client, f"{type(error).__name__}: {error}", traceback.format_exc())
        try:
            connection.send(answer)
        except OSError:
            return


def _play(play: Client, broadcast: Broadcast | None, memories: Memories, order: Play, slots: dict[int, Tensor]) -> Done:
    if broadcast is None:
        raise RuntimeError("a client was to train before any broadcast came")
    update, memory = play(broadcast, order.client, memories.load(order.client, broadcast.round))
    memories.save(order.client, broadcast.round, memory)
    sections = {"weights": update.weights, "buffers": update.buffers, "extra": update.extra}
    layout = Layout.of(sections)
    fresh = order.slot not in slots or len(slots[order.slot]) < layout.size
    if fresh:
        slots[order.slot] = shared_memory(layout.size)
    layout.write(slots[order.slot], sections)
    return Done(
        client=update.client,
        examples=update.examples,
        amount=update.amount,
        metrics=update.metrics,
        layout=layout,
        slot=order.slot,
        memory=slots[order.slot] if fresh else None,
    )
