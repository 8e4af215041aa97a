"""A worker process of the pool: it trains the clients it is sent until its connection closes."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

import torch

from feddecorr.core.client_memory import Memories
from feddecorr.core.messages import Broadcast, Failure, Update
from feddecorr.engines.allocator import keep_freed_memory
from feddecorr.engines.serial import ClientRunner
from feddecorr.engines.shared_memory import SharedStates, StateLayout
from feddecorr.errors import RunError, explain_refusal, too_many_files
from feddecorr.training.shards import Shards
from feddecorr.training.task import Task

Group = tuple[int, ...]
"""Clients that train in one batch, usually a single one."""


@dataclass(frozen=True)
class NewRound:
    """The broadcast of a round; `states` is None if it is in the same shared memory as before."""

    round: int
    states: SharedStates | None


@dataclass(frozen=True)
class TrainingJob:
    """Groups of clients to train one after another; each client's update goes to the slot of that number."""

    groups: Sequence[Group]
    slots: Mapping[int, int]


@dataclass(frozen=True)
class TrainedUpdate:
    """A client's update without its tensors, which are in its slot; `states` is sent only for a new slot."""

    update: Update
    states: SharedStates | None


def work(connection: Connection, task: Task, shards: Shards, memories: Memories) -> None:
    """Answer each `Job` with one `Trained` or failure for each client, or with an error that ends the run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process handles interrupts
    keep_freed_memory()
    torch.set_num_threads(task.experiment.training.threads)  # oversubscribed threads waste cores
    trainer = JobTrainer(ClientRunner(task, shards, memories))
    while True:
        try:
            message = connection.recv()
        except (EOFError, ConnectionError):
            return
        except (OSError, RuntimeError) as error:  # receiving shared memory failed
            connection.send(RunError(f"a worker cannot open shared memory: {too_many_files(error)}"))
            return
        if isinstance(message, NewRound):
            trainer.begin_round(message)
            continue
        try:
            connection.send(_train(trainer, message))
        except OSError:
            return


def _train(trainer: JobTrainer, job: TrainingJob) -> list[TrainedUpdate | Failure] | RunError:
    """Train; errors of the operating system are not a client's failure."""
    try:
        return trainer.train(job)
    except OSError as error:
        return RunError(f"a worker cannot continue: {explain_refusal(error)}")
    except RunError as error:
        return error


class JobTrainer:
    """Trains clients and writes their updates to memory that the main process shares."""

    broadcast: Broadcast

    def __init__(self, runner: ClientRunner) -> None:
        self.runner = runner
        self.slots: dict[int, SharedStates] = {}
        self.shared_broadcast = SharedStates(StateLayout.of({}))

    def begin_round(self, message: NewRound) -> None:
        """Take the broadcast."""
        self.shared_broadcast = message.states or self.shared_broadcast
        self.broadcast = Broadcast(round=message.round, **self.shared_broadcast.states)

    def train(self, job: TrainingJob) -> list[TrainedUpdate | Failure]:
        """Train the clients, directly in their slots once those exist."""
        buffers = {client: self.slots[slot].states for client, slot in job.slots.items() if slot in self.slots}
        answers = [answer for group in job.groups for answer in self.runner.run_group(self.broadcast, group, buffers)]
        return [answer if isinstance(answer, Failure) else self._store(answer, job.slots) for answer in answers]

    def _store(self, update: Update, slots: Mapping[int, int]) -> TrainedUpdate:
        number = slots[update.client]
        sections = {"weights": update.weights, "buffers": update.buffers, "extra": update.extra}
        slot, new = self.slots.get(number), None
        if slot is None or not slot.fits(sections):
            slot = new = self.slots[number] = SharedStates(StateLayout.of(sections))
        slot.fill(sections)
        return TrainedUpdate(replace(update, weights={}, buffers={}, extra={}), new)
