"""A pool of worker processes that live through all rounds."""

from __future__ import annotations

import io
import pickle
import signal
import sys
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import FunctionType
from typing import Annotated, Any

import torch
from pydantic import BeforeValidator, Field, PositiveInt

from feddecorr.core.client_memory import Memories
from feddecorr.core.devices import expand, kind, on_host
from feddecorr.core.messages import Broadcast, Failure, Update
from feddecorr.core.randomness import parallel_jobs
from feddecorr.core.states import State
from feddecorr.core.text import read_list
from feddecorr.core.trust import own_modules_found
from feddecorr.engines.engine import ClientRunner, Engine
from feddecorr.engines.processes import (
    UNGUARDED,
    WORKER,
    context,
    keep_freed_memory,
    require_open_files,
    return_freed_memory,
)
from feddecorr.engines.shared_memory import SharedStates, StateLayout, enough_shared_memory
from feddecorr.errors import RunError, UserError, explain_refusal, too_many_files
from feddecorr.server.federation import RunClients
from feddecorr.training.shards import Shards
from feddecorr.training.task import Task

WorkerArguments = tuple[Task, Shards, Memories]

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
            connection.send(trainer.answer(message))
        except OSError:
            return


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

    def answer(self, job: TrainingJob) -> list[TrainedUpdate | Failure] | RunError:
        """Train; errors of the operating system are not a client's failure."""
        try:
            return self.train(job)
        except OSError as error:
            return RunError(f"a worker cannot continue: {explain_refusal(error)}")
        except RunError as error:
            return error

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


NO_GUARD = (
    "engine=pool starts processes that import your script, and the script starts a run when it is imported: put what "
    "it does under `if __name__ == '__main__':`, or use engine=serial"
)

MAX_CRASHES = 3
"""Crashes of a group's worker after which its clients count as failed."""

MAX_WORK = 1 << 27
"""Upper bound on images times weights of a job of several groups: a few tenths of a second."""

MAX_WEIGHTS = 1 << 22
"""Upper bound on the weights of all updates of a job of several groups: 16 MB."""


class Pool(Engine):
    """Runs clients in worker processes that share the images; a killed worker is replaced."""

    workers: PositiveInt | None = Field(
        None, description="worker processes, of each of the devices; by default cores over training.threads, in all"
    )
    devices: Annotated[tuple[str, ...], BeforeValidator(read_list)] = Field(
        (),
        description="devices that get workers in turn: cuda is all cards, cuda:0,cuda:2 some; by default device",
    )

    @contextmanager
    def open(self, task: Task, shards: Shards, memories: Memories) -> Iterator[RunClients]:
        """Start the workers."""
        refuse_notebook_classes(task)
        used = expand(self.devices) or [task.device]
        if different := [each for each in used if kind(each) != kind(task.device)]:
            raise UserError(
                f"engine.devices={','.join(self.devices)}: {different[0]} is not of the kind of device={task.device}"
            )
        jobs = self.parallel_jobs(task.experiment.training.threads) * (len(used) if self.workers else 1)
        count = min(jobs, len(shards))
        with enough_shared_memory(shards.nbytes):
            shards.share()
        return_freed_memory()
        tasks = [replace(task, device=used[number % len(used)]) for number in range(count)]
        worker_pool = WorkerPool((task, shards, memories), tasks)
        try:
            yield worker_pool.run
        finally:
            worker_pool.close()

    def parallel_jobs(self, threads: int) -> int:
        """As many as there are workers."""
        return self.workers or parallel_jobs(threads)


class NotebookClasses(pickle.Pickler):
    """Finds what a worker could not import, for it is defined in a notebook or at the prompt."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO())
        self.found: set[str] = set()

    def reducer_override(self, value: object) -> Any:
        """Look at each class and function that is pickled by its name."""
        if isinstance(value, type | FunctionType) and value.__module__ == "__main__":
            self.found.add(value.__qualname__)
        return NotImplemented


def refuse_notebook_classes(task: Task) -> None:
    """Refuse kinds that are defined where no file can be imported."""
    file = getattr(sys.modules["__main__"], "__file__", None)
    if file is not None and not Path(file).is_file():
        raise UserError(
            f"the workers of engine=pool import the script that starts them, and {file} is no file: save it"
        )
    if file is None:
        pickler = NotebookClasses()
        pickler.dump(replace(task, network=None))
        if pickler.found:
            raise UserError(
                f"{', '.join(sorted(pickler.found))}: defined in a notebook or at the prompt, where the workers of "
                "engine=pool cannot import it: put it into a .py file and import it from there, or use engine=serial"
            )


class Worker:
    """The main process's handle of one worker, with the jobs it has not finished."""

    def __init__(self, number: int, arguments: WorkerArguments) -> None:
        self.number, self.arguments = number, arguments
        require_open_files()
        self.connection, theirs = context().Pipe()
        self.process = context().Process(target=work, args=(theirs, *arguments), daemon=True, name=WORKER)
        with own_modules_found():
            self.process.start()
        theirs.close()
        self.jobs: deque[TrainingJob] = deque()
        self._round = 0
        self._broadcast: SharedStates | None = None  # the one that it has
        self._slots: dict[int, SharedStates] = {}
        self._count = 0
        self._free: list[int] = []

    def submit(self, new_round: NewRound, groups: Sequence[Group]) -> None:
        """Send groups of clients to train, possibly while an earlier job is running."""
        job = TrainingJob(groups, {client: self._take_slot() for group in groups for client in group})
        self.jobs.append(job)
        try:
            if self._round != new_round.round:
                same = new_round.states is self._broadcast
                self.connection.send(NewRound(new_round.round, None) if same else new_round)
                self._round, self._broadcast = new_round.round, new_round.states
            self.connection.send(job)
        except OSError:  # it was killed: `receive` will notice
            return

    def _take_slot(self) -> int:
        if not self._free:
            self._free.append(self._count)
            self._count += 1
        return self._free.pop()

    def receive(self) -> list[Update | Failure]:
        """Return the answers to the next job."""
        try:
            answers: list[TrainedUpdate | Failure] | RunError = self.connection.recv()
        except RuntimeError as error:  # multiprocessing raises this if it cannot open shared memory
            raise RunError(f"cannot open a worker's shared memory: {too_many_files(error)}") from None
        if isinstance(answers, RunError):
            raise answers
        slots = self.jobs.popleft().slots
        used = {answer.update.client for answer in answers if isinstance(answer, TrainedUpdate)}
        self._free += [slot for client, slot in slots.items() if client not in used]
        return [self._name(answer) if isinstance(answer, Failure) else self._read(answer, slots) for answer in answers]

    def _name(self, failed: Failure) -> Failure:
        """Say which worker it was, where workers differ in what they compute on."""
        device = self.arguments[0].device
        return failed if on_host(device) else replace(failed, cause=f"worker {self.number} on {device}: {failed.cause}")

    def _read(self, answer: TrainedUpdate, slots: Mapping[int, int]) -> Update:
        slot = slots[answer.update.client]
        if answer.states is not None:
            self._slots[slot] = answer.states
        states = self._lend(slot)
        return replace(answer.update, weights=states["weights"], buffers=states["buffers"], extra=states["extra"])

    def _lend(self, slot: int) -> dict[str, State]:
        """Return the states in a slot without a copy; the slot is freed with the last of their tensors."""
        shared = self._slots[slot]
        array = shared.flat.numpy()[:]
        weakref.finalize(array, self._free.append, slot)
        return shared.layout.read(torch.from_numpy(array))

    def exit_reason(self, crashes: int) -> str:
        """Return what is known about the end of the process."""
        code = self.process.exitcode
        killed = " (killed, possibly out of memory; if so, try fewer engine.workers)" if code == -signal.SIGKILL else ""
        return f"its worker process ended {crashes} times, the last time with exit code {code}{killed}"

    def stop(self) -> None:
        """Stop the process, whatever it is doing."""
        if sys.is_finalizing():  # it has ended already
            return
        self.connection.close()
        self.process.join(timeout=0.2 if not self.jobs else 0)  # an idle worker exits when the connection closes
        self.process.kill()
        self.process.join()


class WorkerPool:
    """All workers, and the distribution of groups to them."""

    def __init__(self, arguments: WorkerArguments, tasks: Sequence[Task]) -> None:
        self._arguments = arguments
        self.workers = [Worker(number, (task, *arguments[1:])) for number, task in enumerate(tasks)]
        self._broadcast = SharedStates(StateLayout.of({}))

    def run(self, broadcast: Broadcast, clients: Sequence[int]) -> Iterator[Update | Failure]:
        """Yield the clients' answers in order, independent of which worker trained which client."""
        self._finish_jobs()
        new_round = self._share(broadcast)
        queue = self._queue(broadcast, clients)
        finished: dict[int, Update | Failure] = {}
        for client in clients:
            while client not in finished:
                self._submit(new_round, queue)
                for worker in self._ready_workers():
                    try:
                        answers = worker.receive()
                    except (EOFError, OSError):
                        answers = self._handle_exit(worker, queue, broadcast.round)
                    finished |= {client: answer for answer in answers for client in answer.clients}
            answer = finished.pop(client)
            if client == answer.client:  # otherwise it is merged into another client's update
                yield answer

    def _queue(self, broadcast: Broadcast, clients: Sequence[int]) -> GroupQueue:
        task, shards, _ = self._arguments
        sizes = shards.sizes
        weights = sum(weight.numel() for weight in broadcast.weights.values())
        return GroupQueue(task.groups(clients), images=lambda client: int(sizes[client]), weights=weights)

    def _handle_exit(self, worker: Worker, queue: GroupQueue, number: int) -> list[Update | Failure]:
        """Replace a worker that died; retry its groups, unless one has crashed too often."""
        worker.process.join(timeout=1)  # its connection ends a moment before it does
        if worker.process.exitcode == UNGUARDED:
            raise UserError(NO_GUARD) from None
        self._replace(worker)
        queue.put_back([group for job in worker.jobs for group in job.groups])
        groups = worker.jobs[0].groups
        crashes = queue.count_crash(groups)
        if crashes < MAX_CRASHES:
            return []
        queue.remove(groups[0])
        return [Failure(number, client, worker.exit_reason(crashes)) for client in groups[0]]

    def close(self) -> None:
        """Stop all workers, in parallel."""
        for worker in self.workers:
            worker.connection.close()
        for worker in self.workers:
            worker.stop()

    def _finish_jobs(self) -> None:
        """Wait for jobs of a round that was not read to its end: workers still use its broadcast."""
        while any(worker.jobs for worker in self.workers):
            for worker in self._ready_workers():
                try:
                    worker.receive()
                except (EOFError, OSError):
                    self._replace(worker)

    def _share(self, broadcast: Broadcast) -> NewRound:
        sections = {"weights": broadcast.weights, "buffers": broadcast.buffers, "shared": broadcast.shared}
        layout = StateLayout.of(sections)
        if self._broadcast.layout != layout:
            self._broadcast = SharedStates(layout)
        self._broadcast.fill(sections)
        return NewRound(broadcast.round, self._broadcast)

    def _submit(self, new_round: NewRound, queue: GroupQueue) -> None:
        """Keep every worker busy, with a second job queued while many groups wait.

        Towards the end of the round nobody gets a second job: the last groups go to the first idle worker.
        """
        for depth in (1, 2):
            for worker in self.workers:
                many = len(queue) > len(self.workers)
                if len(queue) and len(worker.jobs) < depth and (depth == 1 or many):
                    worker.submit(new_round, queue.take(len(self.workers)))

    def _ready_workers(self) -> list[Worker]:
        busy = {worker.connection: worker for worker in self.workers if worker.jobs}
        return [busy[found] for found in wait(list(busy)) if isinstance(found, Connection)]

    def _replace(self, worker: Worker) -> None:
        """Start another worker in place of one that died."""
        worker.stop()
        self.workers[self.workers.index(worker)] = Worker(worker.number, worker.arguments)


class GroupQueue:
    """The groups of a round that wait for a worker, in order.

    Tiny clients go out several to a job, because a message costs as much as they do. How many depends on images,
    weights and the number of waiting groups, never on a clock.
    """

    def __init__(self, groups: Sequence[Sequence[int]], *, images: Callable[[int], int], weights: int) -> None:
        self._groups = deque(map(tuple, groups))
        self._images, self._weights = images, weights
        self._alone: set[Group] = set()
        self._crashes: Counter[Group] = Counter()

    def __len__(self) -> int:
        return len(self._groups)

    def take(self, workers: int) -> list[Group]:
        """Take the groups of the next job: at most half of a worker's fair share."""
        taken = [self._groups.popleft()]
        share = len(self) // (2 * workers)
        while len(taken) < share and taken[0] not in self._alone and self._fits([*taken, self._groups[0]]):
            taken.append(self._groups.popleft())
        return taken

    def _fits(self, groups: Sequence[Group]) -> bool:
        clients = [client for group in groups for client in group]
        return (
            groups[-1] not in self._alone
            and len(clients) * self._weights <= MAX_WEIGHTS
            and sum(map(self._images, clients)) * self._weights <= MAX_WORK
        )

    def put_back(self, groups: Sequence[Group]) -> None:
        """Put the groups back at the front."""
        self._groups.extendleft(reversed(groups))

    def count_crash(self, groups: Sequence[Group]) -> int:
        """Count a worker's crash; return the crashes of the group to blame, or 0 if that is unknown.

        It is unknown for several groups: from now on each of them gets its own job.
        """
        if len(groups) > 1:
            self._alone |= set(groups)
            return 0
        self._crashes[groups[0]] += 1
        return self._crashes[groups[0]]

    def remove(self, group: Group) -> None:
        """Remove a group for good."""
        self._groups.remove(group)
