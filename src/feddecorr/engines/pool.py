"""Worker processes that stay alive over all rounds."""

from __future__ import annotations

import signal
import sys
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING

import torch
from pydantic import Field, PositiveInt

from feddecorr.core.messages import Broadcast, Failure, Update
from feddecorr.core.states import State
from feddecorr.core.threads import parallel_jobs
from feddecorr.engines.allocator import return_freed_memory
from feddecorr.engines.engine import Engine
from feddecorr.engines.processes import context, expect_files
from feddecorr.engines.queue import MAX_DEATHS, Group, Waiting
from feddecorr.engines.shared_memory import enough_shared_memory
from feddecorr.engines.shared_state import Layout, Parcel
from feddecorr.engines.worker import Done, NewRound, Play, work
from feddecorr.errors import RunError, too_many_files
from feddecorr.server.federation import RunClients

if TYPE_CHECKING:
    from feddecorr.core.client_memory import Memories
    from feddecorr.training.shards import Shards
    from feddecorr.training.task import Task

    Recipe = tuple[Task, Shards, Memories]


class Pool(Engine):
    """Runs clients in worker processes that share the images; a killed worker is replaced."""

    workers: PositiveInt | None = Field(None, description="processes; one for each core (over training.threads)")

    @contextmanager
    def open(self, task: Task, shards: Shards, memories: Memories) -> Iterator[RunClients]:
        """Start the workers."""
        count = min(self.parallel_jobs(task.experiment.training.threads), len(shards))
        with enough_shared_memory(shards.nbytes):
            shards.share()
        return_freed_memory()
        worker_pool = WorkerPool((task, shards, memories), count)
        try:
            yield worker_pool.run
        finally:
            worker_pool.close()

    def parallel_jobs(self, threads: int) -> int:
        """As many as there are workers."""
        return self.workers or parallel_jobs(threads)


class Worker:
    """The main process's end of one worker, with the orders that it was given and has not yet done."""

    def __init__(self, recipe: Recipe) -> None:
        expect_files()
        self.connection, theirs = context().Pipe()
        self.process = context().Process(target=work, args=(theirs, *recipe), daemon=True)
        self.process.start()
        theirs.close()
        self.orders: deque[Play] = deque()
        self._round = 0
        self._broadcast: Parcel | None = None  # that it has
        self._slots: dict[int, Parcel] = {}
        self._count = 0
        self._free: list[int] = []

    def play(self, news: NewRound, groups: Sequence[Group]) -> None:
        """Tell the worker to play groups of clients, perhaps after what it is busy with."""
        order = Play(groups, {client: self._take_slot() for group in groups for client in group})
        self.orders.append(order)
        try:
            if self._round != news.round:
                self.connection.send(NewRound(news.round, None) if news.parcel is self._broadcast else news)
                self._round, self._broadcast = news.round, news.parcel
            self.connection.send(order)
        except OSError:  # it was killed: `receive` will find out
            return

    def _take_slot(self) -> int:
        if not self._free:
            self._free.append(self._count)
            self._count += 1
        return self._free.pop()

    def receive(self) -> list[Update | Failure]:
        """Take out the answers to the next order."""
        try:
            answers: list[Done | Failure] | RunError = self.connection.recv()
        except RuntimeError as error:  # what multiprocessing raises where shared memory cannot be handed over
            raise RunError(f"a worker's memory cannot be seen: {too_many_files(error)}") from None
        if isinstance(answers, RunError):
            raise answers
        slots = self.orders.popleft().slots
        lent = {answer.update.client for answer in answers if isinstance(answer, Done)}
        self._free += [slot for client, slot in slots.items() if client not in lent]
        return [answer if isinstance(answer, Failure) else self._take(answer, slots) for answer in answers]

    def _take(self, answer: Done, slots: Mapping[int, int]) -> Update:
        slot = slots[answer.update.client]
        if answer.parcel is not None:
            self._slots[slot] = answer.parcel
        states = self._lend(slot)
        return replace(answer.update, weights=states["weights"], buffers=states["buffers"], extra=states["extra"])

    def _lend(self, slot: int) -> dict[str, State]:
        """Return the states in a slot without a copy; the slot is free again when the last tensor of them is gone."""
        parcel = self._slots[slot]
        array = parcel.flat.numpy()[:]
        weakref.finalize(array, self._free.append, slot)
        return parcel.layout.read(torch.from_numpy(array))

    def exit_reason(self, deaths: int) -> str:
        """Return what is known of the end of the process."""
        code = self.process.exitcode
        killed = (
            " (killed, perhaps for lack of memory; then try fewer engine.workers)" if code == -signal.SIGKILL else ""
        )
        return f"its worker process ended {deaths} times, the last time with exit code {code}{killed}"

    def end(self) -> None:
        """End the process, whatever it is doing."""
        if sys.is_finalizing():  # then it has ended already
            return
        self.connection.close()
        self.process.join(timeout=0.2 if not self.orders else 0)  # an idle worker sees the end by itself
        self.process.kill()
        self.process.join()


class WorkerPool:
    """All workers, and what they are told to do."""

    def __init__(self, recipe: Recipe, count: int) -> None:
        self._recipe = recipe
        self.workers = [Worker(recipe) for _ in range(count)]
        self._parcel = Parcel(Layout.of({}))  # of the broadcast

    def run(self, broadcast: Broadcast, clients: Sequence[int]) -> Iterator[Update | Failure]:
        """Yield what comes of the clients in their order; which worker played whom leaves no trace."""
        self._settle()
        news = self._announce(broadcast)
        waiting = self._line_up(broadcast, clients)
        finished: dict[int, Update | Failure] = {}
        for client in clients:
            while client not in finished:
                self._hand_out(news, waiting)
                for worker in self._with_news():
                    try:
                        answers = worker.receive()
                    except (EOFError, OSError):
                        answers = self._handle_exit(worker, waiting, broadcast.round)
                    finished |= {client: answer for answer in answers for client in answer.clients}
            answer = finished.pop(client)
            if client == answer.client:  # or else it is part of another's
                yield answer

    def _line_up(self, broadcast: Broadcast, clients: Sequence[int]) -> Waiting:
        task, shards, _ = self._recipe
        sizes = shards.sizes
        weights = sum(weight.numel() for weight in broadcast.weights.values())
        return Waiting(task.groups(clients), images=lambda client: int(sizes[client]), weights=weights)

    def _handle_exit(self, worker: Worker, waiting: Waiting, number: int) -> list[Update | Failure]:
        """Replace a worker that died; what it was told to do waits again, unless it is given up."""
        self._replace(worker)
        waiting.put_back([group for order in worker.orders for group in order.groups])
        groups = worker.orders[0].groups
        deaths = waiting.blame(groups)
        if deaths < MAX_DEATHS:
            return []
        waiting.give_up(groups[0])
        return [Failure(number, client, worker.exit_reason(deaths)) for client in groups[0]]

    def close(self) -> None:
        """End all workers, side by side."""
        for worker in self.workers:
            worker.connection.close()
        for worker in self.workers:
            worker.end()

    def _settle(self) -> None:
        """Let workers end what they do, if nobody read the last round to its end: they still use its broadcast."""
        while any(worker.orders for worker in self.workers):
            for worker in self._with_news():
                try:
                    worker.receive()
                except (EOFError, OSError):
                    self._replace(worker)

    def _announce(self, broadcast: Broadcast) -> NewRound:
        sections = {"weights": broadcast.weights, "buffers": broadcast.buffers, "shared": broadcast.shared}
        layout = Layout.of(sections)
        if self._parcel.layout != layout:
            self._parcel = Parcel(layout)
        self._parcel.fill(sections)
        return NewRound(broadcast.round, self._parcel)

    def _hand_out(self, news: NewRound, waiting: Waiting) -> None:
        """Keep every worker busy, with one more order at hand while there are plenty.

        Towards the end of the round nobody takes a second: the last groups go to whoever is free first.
        """
        for depth in (1, 2):
            for worker in self.workers:
                plenty = len(waiting) > len(self.workers)
                if len(waiting) and len(worker.orders) < depth and (depth == 1 or plenty):
                    worker.play(news, waiting.take(len(self.workers)))

    def _with_news(self) -> list[Worker]:
        busy = {worker.connection: worker for worker in self.workers if worker.orders}
        return [busy[found] for found in wait(list(busy)) if isinstance(found, Connection)]

    def _replace(self, worker: Worker) -> None:
        """Start another in place of a worker that died."""
        worker.end()
        self.workers[self.workers.index(worker)] = Worker(self._recipe)
