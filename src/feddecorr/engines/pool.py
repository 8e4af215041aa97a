"""Worker processes that stay alive over all rounds."""

from __future__ import annotations

import errno
import sys
import weakref
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING

import torch
from pydantic import Field, PositiveInt

from feddecorr.engines.allocator import return_freed_memory
from feddecorr.engines.engine import Engine, RunClients
from feddecorr.engines.parcel import Layout, Parcel
from feddecorr.engines.processes import context
from feddecorr.engines.worker import Done, NewRound, Play, work
from feddecorr.errors import SHORT_OF, RunError
from feddecorr.messages import Broadcast, Failure, Update
from feddecorr.states import State
from feddecorr.threads import hands

if TYPE_CHECKING:
    from feddecorr.federation import Shards, Task
    from feddecorr.runs.memories import Memories

    Recipe = tuple[Task, Shards, Memories]

MAX_DEATHS = 3
"""So often may a client's worker be killed before the run gives up."""


class Pool(Engine):
    """Runs clients in worker processes that share the images; a killed worker is replaced."""

    workers: PositiveInt | None = Field(None, description="processes; one for each core (over training.threads)")

    @contextmanager
    def open(self, task: Task, shards: Shards, memories: Memories) -> Iterator[RunClients]:
        """Start the workers."""
        count = min(self.hands(task.experiment.training.threads), len(shards))
        shards.share()
        return_freed_memory()
        crew = Crew((task, shards, memories), count)
        try:
            yield crew.run
        finally:
            crew.close()

    def hands(self, threads: int) -> int:
        """As many as there are workers."""
        return self.workers or hands(threads)


class Worker:
    """The main process's end of one worker, with the clients that it was told to play and has not yet."""

    def __init__(self, recipe: Recipe) -> None:
        self.connection, theirs = context().Pipe()
        self.process = context().Process(target=work, args=(theirs, *recipe), daemon=True)
        self.process.start()
        theirs.close()
        self.clients: deque[int] = deque()
        self._round = 0
        self._broadcast: Parcel | None = None  # that it has
        self._slots: dict[int, Parcel] = {}
        self._count = 0
        self._free: list[int] = []

    def play(self, news: NewRound, client: int) -> None:
        """Tell the worker to play a client, perhaps after the one that it is busy with."""
        if self._round != news.round:
            self.connection.send(NewRound(news.round, None) if news.parcel is self._broadcast else news)
            self._round, self._broadcast = news.round, news.parcel
        if not self._free:
            self._free.append(self._count)
            self._count += 1
        self.connection.send(Play(client, slot=self._free.pop()))
        self.clients.append(client)

    def receive(self) -> Update | Failure:
        """Take out the next answer."""
        try:
            answer: Done | Failure = self.connection.recv()
        except RuntimeError as error:  # what multiprocessing raises where shared memory cannot be handed over
            raise RunError(f"a worker's memory cannot be seen ({error}): {SHORT_OF[errno.EMFILE]}") from error
        self.clients.popleft()
        if isinstance(answer, Failure):
            return answer
        if answer.parcel is not None:
            self._slots[answer.slot] = answer.parcel
        states = self._lend(answer.slot)
        return replace(answer.update, weights=states["weights"], buffers=states["buffers"], extra=states["extra"])

    def _lend(self, slot: int) -> dict[str, State]:
        """Return the states in a slot without a copy; the slot is free again when the last tensor of them is gone."""
        parcel = self._slots[slot]
        array = parcel.flat.numpy()[:]
        weakref.finalize(array, self._free.append, slot)
        return parcel.layout.read(torch.from_numpy(array))

    def epitaph(self, deaths: int) -> str:
        """Return what is known of the end of the process."""
        end = f"its worker process ended {deaths} times, the last time with exit code {self.process.exitcode}"
        return f"{end} (-9: killed, perhaps for lack of memory; then try fewer engine.workers)"

    def end(self) -> None:
        """End the process, whatever it is doing."""
        if sys.is_finalizing():  # then it has ended already
            return
        self.connection.close()
        self.process.join(timeout=0.2 if not self.clients else 0)  # an idle worker sees the end by itself
        self.process.kill()
        self.process.join()


class Crew:
    """All workers, and the clients of the round that wait for one."""

    def __init__(self, recipe: Recipe, count: int) -> None:
        self._recipe = recipe
        self.workers = [Worker(recipe) for _ in range(count)]
        self._parcel = Parcel(Layout.of({}))  # of the broadcast

    def run(self, broadcast: Broadcast, clients: Sequence[int]) -> Iterator[Update | Failure]:
        """Yield what comes of the clients in their order; which worker played whom leaves no trace."""
        self._settle()
        news = self._announce(broadcast)
        waiting = deque(clients)
        finished: dict[int, Update | Failure] = {}
        deaths: Counter[int] = Counter()
        for client in clients:
            while client not in finished:
                self._hand_out(news, waiting)
                for worker in self._with_news():
                    try:
                        answer = worker.receive()
                    except (EOFError, OSError):
                        self._replace(worker, waiting)
                        dead = next(iter(worker.clients))
                        deaths[dead] += 1
                        if deaths[dead] >= MAX_DEATHS:
                            waiting.remove(dead)
                            finished[dead] = Failure(broadcast.round, dead, worker.epitaph(deaths[dead]))
                        continue
                    finished[answer.client] = answer
            yield finished.pop(client)

    def close(self) -> None:
        """End all workers."""
        for worker in self.workers:
            worker.end()

    def _settle(self) -> None:
        """Let workers end what they do, if nobody read the last round to its end: they still use its broadcast."""
        while any(worker.clients for worker in self.workers):
            for worker in self._with_news():
                try:
                    worker.receive()
                except (EOFError, OSError):
                    self._replace(worker, deque())

    def _announce(self, broadcast: Broadcast) -> NewRound:
        sections = {"weights": broadcast.weights, "buffers": broadcast.buffers, "shared": broadcast.shared}
        layout = Layout.of(sections)
        if self._parcel.layout != layout:
            self._parcel = Parcel(layout)
        self._parcel.fill(sections)
        return NewRound(broadcast.round, self._parcel)

    def _hand_out(self, news: NewRound, waiting: deque[int]) -> None:
        """Keep every worker busy, with one more client at hand while there are plenty.

        Towards the end of the round nobody takes a second: the last clients go to whoever is free first.
        """
        for depth in (1, 2):
            for worker in self.workers:
                plenty = len(waiting) > len(self.workers)
                if waiting and len(worker.clients) < depth and (depth == 1 or plenty):
                    try:
                        worker.play(news, waiting[0])
                    except OSError:  # it was killed: `receive` will find out
                        worker.clients.append(waiting[0])
                    waiting.popleft()

    def _with_news(self) -> list[Worker]:
        busy = {worker.connection: worker for worker in self.workers if worker.clients}
        return [busy[found] for found in wait(list(busy)) if isinstance(found, Connection)]

    def _replace(self, worker: Worker, waiting: deque[int]) -> None:
        """Start another in place of a worker that died; its clients wait again."""
        waiting.extendleft(reversed(worker.clients))
        worker.end()
        self.workers[self.workers.index(worker)] = Worker(self._recipe)
