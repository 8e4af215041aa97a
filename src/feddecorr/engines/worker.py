"""The process of a pool's worker: it plays the clients it is told to, until its connection closes."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

import torch

from feddecorr.core.client_memory import Memories
from feddecorr.core.messages import Broadcast, Failure, Update
from feddecorr.engines.allocator import keep_freed_memory
from feddecorr.engines.local_clients import Stage
from feddecorr.engines.queue import Group
from feddecorr.engines.shared_state import Layout, Parcel
from feddecorr.errors import RunError, explain_refusal, too_many_files
from feddecorr.training.shards import Shards
from feddecorr.training.task import Task


@dataclass(frozen=True)
class NewRound:
    """The broadcast of a round lies in the parcel, which is None where it is the same memory as before."""

    round: int
    parcel: Parcel | None


@dataclass(frozen=True)
class Play:
    """Train groups of clients one after another, and leave each client's update in the slot of that number."""

    groups: Sequence[Group]
    slots: Mapping[int, int]


@dataclass(frozen=True)
class Done:
    """The update of a client, without its tensors: they lie in the slot, whose parcel is only sent when it is new."""

    update: Update
    parcel: Parcel | None


def work(connection: Connection, task: Task, shards: Shards, memories: Memories) -> None:
    """Answer each `Play` with a list of `Done` or failures, one for each client; or with what ends the run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process decides what an interrupt means
    keep_freed_memory()
    torch.set_num_threads(task.experiment.training.threads)  # threads that wait for each other waste cores
    player = Player(Stage(task, shards, memories))
    while True:
        try:
            order = connection.recv()
        except (EOFError, ConnectionError):
            return
        except (OSError, RuntimeError) as error:  # shared memory was not handed over
            connection.send(RunError(f"a worker cannot see what is sent: {too_many_files(error)}"))
            return
        if isinstance(order, NewRound):
            player.hear(order)
            continue
        try:
            connection.send(_answer(player, order))
        except OSError:
            return


def _answer(player: Player, order: Play) -> list[Done | Failure] | RunError:
    """Play; what the machine refuses is no client's failure."""
    try:
        return player.play(order)
    except OSError as error:
        return RunError(f"a worker cannot go on: {explain_refusal(error)}")
    except RunError as error:
        return error


class Player:
    """Plays clients, and writes their updates to memory that the main process sees."""

    broadcast: Broadcast

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.slots: dict[int, Parcel] = {}
        self.heard = Parcel(Layout.of({}))

    def hear(self, news: NewRound) -> None:
        """Take in the broadcast."""
        self.heard = news.parcel or self.heard
        self.broadcast = Broadcast(round=news.round, **self.heard.states)

    def play(self, order: Play) -> list[Done | Failure]:
        """Train the clients, in the slots themselves once they are there."""
        out_buffers = {client: self.slots[slot].states for client, slot in order.slots.items() if slot in self.slots}
        answers = [answer for group in order.groups for answer in self.stage.play(self.broadcast, group, out_buffers)]
        return [answer if isinstance(answer, Failure) else self._put_down(answer, order.slots) for answer in answers]

    def _put_down(self, update: Update, slots: Mapping[int, int]) -> Done:
        number = slots[update.client]
        sections = {"weights": update.weights, "buffers": update.buffers, "extra": update.extra}
        slot, new = self.slots.get(number), None
        if slot is None or not slot.fits(sections):
            slot = new = self.slots[number] = Parcel(Layout.of(sections))
        slot.fill(sections)
        return Done(replace(update, weights={}, buffers={}, extra={}), new)
