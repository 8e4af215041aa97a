"""Does many runs in parallel, each once; one that fails stops no other.

Each run has a process of its own, on one core (or `training.threads`): separate runs never wait for each other, while
the workers of a pool wait for the slowest client of every round and for the server. Only when fewer runs are left than
there are cores do the last ones spread their clients over a pool, from the next round on. Runs that name another
engine than `serial` have that engine, on as many cores as it takes.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from threading import Thread
from typing import Any

from pydantic import Field, PositiveInt

from feddecorr.config.experiment import Experiment
from feddecorr.core.trust import own_modules_found
from feddecorr.engines.engine import Serial
from feddecorr.engines.pool import Pool
from feddecorr.engines.processes import context, keep_freed_memory
from feddecorr.errors import RunError, UserError
from feddecorr.results.study import Arm
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import ensure
from feddecorr.settings.options import RunOptions
from feddecorr.sweeps.executor import Executor
from feddecorr.sweeps.jobs import Job, plan
from feddecorr.sweeps.status import (
    POOL_PAYS,
    Busy,
    FailedRun,
    Pace,
    Status,
    Tell,
    is_memory_short,
    peak_memory,
    time_left,
)

ATTEMPTS = 3
"""How often to try a run that is refused although nobody holds it: another process may just have looked at it."""


@dataclass(frozen=True)
class Passed:
    """A round is done; the peak memory of the process, in bytes."""

    round: int
    memory: int


@dataclass(frozen=True)
class Ended:
    """The worker is free again: the run is complete, or paused, or held by another process."""

    held: bool = False


@dataclass(frozen=True)
class Failed:
    """The run cannot continue."""

    reason: str
    trace: str | None


class RunWorker:
    """The runner's end of a process that does runs; the process ends with the runner's, even if that is killed."""

    def __init__(self) -> None:
        self.connection, theirs = context().Pipe()
        self.process = context().Process(target=work, args=(theirs,))
        with own_modules_found():
            self.process.start()
        theirs.close()
        self.memory = 0

    def start(self, experiment: Experiment, options: RunOptions, path: Path) -> None:
        """Let it do a run, or what is missing of it."""
        self.connection.send((experiment, options, path))

    def pause(self) -> None:
        """Let it stop after the current round."""
        self.connection.send(None)

    def receive(self) -> Passed | Ended | Failed:
        """Return the next answer; EOFError or OSError if the process is gone."""
        answer: Passed | Ended | Failed = self.connection.recv()
        if isinstance(answer, Passed):
            self.memory = answer.memory
        return answer

    def end(self) -> None:
        """End the process, whatever it is doing: a run can be resumed from any moment."""
        self.connection.close()
        self.process.kill()
        self.process.join()


def work(connection: Connection) -> None:
    """Do the runs that come; answer each with a `Passed` for every round, and then `Ended` or `Failed`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process handles interrupts
    Thread(target=_end_with_parent, daemon=True).start()
    keep_freed_memory()

    def after_round(number: int) -> bool:
        connection.send(Passed(number, peak_memory()))
        return not connection.poll()

    while True:
        try:
            order = connection.recv()
            if order is not None:  # a pause that came too late
                connection.send(do_run(*order, after_round=after_round))
        except (EOFError, OSError):
            return


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(0)


def do_run(
    experiment: Experiment, options: RunOptions, path: Path, *, after_round: Callable[[int], bool]
) -> Ended | Failed:
    """Do the run; whatever goes wrong with it is an answer. After each round it is asked whether to go on."""
    refusal = ""
    for _ in range(ATTEMPTS):
        try:
            with closing(ensure(experiment, options, path)) as records:
                for record in records:
                    if not after_round(record.round):
                        break
            return Ended()
        except UserError as error:
            if RunDirectory(path).is_held():
                return Ended(held=True)
            refusal = str(error)
            time.sleep(0.1)
        except RunError as error:
            return Failed(str(error), str(error.__cause__) if error.__cause__ else None)
        except Exception as error:  # whatever a user's own class raises is reported, not swallowed
            return Failed(f"{type(error).__name__}: {error}", traceback.format_exc())
    return Failed(refusal, None)


TICK = 0.5
"""Seconds between two reports of the status."""

MAX_DEATHS = 2
"""How often the process of a run may be killed before the run counts as failed."""


def run_all(
    arms: Sequence[Arm], store: Path, *, jobs: int | None = None, tell: Tell | None = None
) -> dict[str, FailedRun]:
    """Do all runs of these arms, in `store/DIGEST`; return those that failed, by digest.

    What is done is not touched, what is begun continues. `jobs` is the number of cores to use. Runs that another
    process is doing are left to it and waited for.
    """
    return Local(jobs=jobs).run(plan(arms, store), tell or (lambda _: None))


class Local(Executor):
    """Processes of this machine."""

    jobs: PositiveInt | None = Field(None, description="cores to use; all by default")

    def run(self, jobs: Sequence[Job], tell: Tell) -> dict[str, FailedRun]:
        """Do the runs; those that another process is doing are left to it and waited for."""
        runner = Runner(jobs, self.jobs or available_cores(), tell)
        try:
            runner.run()
        finally:
            runner.end()
        return runner.failures


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Runner:
    """Keeps the cores busy until no run is left."""

    def __init__(self, jobs: Sequence[Job], cores: int, tell: Tell) -> None:
        self.total = len(jobs)
        self.cores = cores
        self.failures: dict[str, FailedRun] = {}
        self._tell = tell
        self._waiting = [job for job in jobs if not self._is_settled(job)]
        self._held: list[Job] = []
        self._busy: dict[RunWorker, Busy] = {}
        self._idle: list[RunWorker] = []
        self._pace = Pace()
        self._largest_peak = 0
        self._short_of_memory = False
        self._looked = 0.0

    def run(self) -> None:
        """Continue until all runs are done, here or by other processes, or have failed."""
        while self._waiting or self._busy or self._held:
            self._start()
            self._listen()
            if time.monotonic() - self._looked >= TICK:
                self._look_around()
        self._tell(self._status())

    def end(self) -> None:
        """End all processes; what they were doing continues the next time."""
        for worker in [*self._busy, *self._idle]:
            worker.end()

    def _start(self) -> None:
        """Start the next runs that fit, in their order; those whose process was killed come last."""
        self._waiting.sort(key=lambda job: job.deaths)
        while self._waiting:
            job = self._waiting[0]
            needed = self._needed(job)
            if needed > self.cores - sum(busy.cores for busy in self._busy.values()):
                return
            if self._is_settled(job):  # another process did it
                self._waiting.pop(0)
            elif RunDirectory(job.path).is_held():
                self._held.append(self._waiting.pop(0))
            elif self._is_memory_short():
                return
            else:
                self._give(self._waiting.pop(0), needed)

    def _is_memory_short(self) -> bool:
        kept = self._idle[-1].memory if self._idle else 0
        peaks = [worker.memory for worker in self._busy]
        self._short_of_memory = is_memory_short(peaks, self._largest_peak, kept=kept)
        return self._short_of_memory

    def _needed(self, job: Job) -> int:
        """Return the cores that a run needs: all if its process was killed, which is mostly for lack of memory."""
        threads = job.experiment.training.threads
        return self.cores if job.deaths else min(self.cores, threads * job.options.engine.parallel_jobs(threads))

    def _give(self, job: Job, needed: int) -> None:
        """Give the run to a worker, alone or with a pool."""
        options, processes = job.options, self._processes(job)
        if isinstance(options.engine, Pool) or (processes > 1 and isinstance(options.engine, Serial)):
            options = options.model_copy(update={"engine": Pool(workers=processes)})
            needed = processes * job.experiment.training.threads
        worker = self._idle.pop() if self._idle else RunWorker()
        self._busy[worker] = Busy(job, needed, processes, time.monotonic())
        with contextlib.suppress(OSError):  # it was killed while it was idle: receiving from it will tell
            worker.start(job.experiment, options, job.path)

    def _processes(self, job: Job) -> int:
        """Return how many processes should train for the run: its engine's, else several if cores would idle long."""
        threads = job.experiment.training.threads
        if not isinstance(job.options.engine, Serial):
            return max(1, min(job.options.engine.parallel_jobs(threads), self.cores // threads))
        if self._waiting or job.deaths or not self._pace.known or self._pace.seconds(job) < POOL_PAYS:
            return 1
        others = [busy.cores for busy in self._busy.values() if busy.job is not job]
        share = min(self.cores // (1 + len(others)), self.cores - sum(others))
        return max(1, min(share // threads, job.experiment.clients))

    def _listen(self) -> None:
        """Handle what workers send until the next report of the status."""
        workers: dict[Any, RunWorker] = {worker.connection: worker for worker in self._busy}
        for connection in wait(list(workers), max(0.0, self._looked + TICK - time.monotonic())):
            worker = workers[connection]
            try:
                answer = worker.receive()
            except (EOFError, OSError):
                self._handle_exit(worker)
                continue
            if isinstance(answer, Passed):
                self._learn(worker, answer)
            else:
                self._settle(self._busy.pop(worker), answer)
                self._idle.append(worker)

    def _settle(self, busy: Busy, answer: Ended | Failed) -> None:
        """Decide what becomes of a run that a worker has let go."""
        if isinstance(answer, Failed):
            self._fail(busy.job, answer.reason, answer.trace)
        elif answer.held:
            self._held.append(busy.job)
        elif not self._is_settled(busy.job):
            if busy.pausing:
                self._waiting.append(busy.job)
            else:
                self._fail(busy.job, f"it ended after round {busy.job.finished} of {busy.job.options.rounds}")

    def _learn(self, worker: RunWorker, answer: Passed) -> None:
        busy, now = self._busy[worker], time.monotonic()
        self._pace.learn(busy.job, (now - busy.since) * busy.processes)
        self._largest_peak = max(self._largest_peak, answer.memory)
        busy.job.finished, busy.since = answer.round, now
        if busy.job.left and not busy.pausing and self._processes(busy.job) > busy.processes:
            busy.pausing = True
            with contextlib.suppress(OSError):
                worker.pause()

    def _handle_exit(self, worker: RunWorker) -> None:
        """Try the run of a killed process once more, alone, or give it up."""
        job = self._busy.pop(worker).job
        worker.process.join(timeout=5)
        worker.end()
        job.deaths += 1
        if self._is_settled(job):
            return
        if job.deaths < MAX_DEATHS:
            self._waiting.append(job)
            return
        last = f"the last time in round {job.finished + 1} with exit code {worker.process.exitcode}"
        self._fail(job, f"its process ended {job.deaths} times, {last} (-9: killed, perhaps for lack of memory)")

    def _is_settled(self, job: Job) -> bool:
        """Tell whether a run is done; one that cannot be read has failed, and stops no other."""
        try:
            return job.look()
        except (UserError, OSError) as error:
            self._fail(job, str(error))
            return True

    def _fail(self, job: Job, reason: str, trace: str | None = None) -> None:
        self.failures[job.digest] = FailedRun(job.name, reason, trace)

    def _look_around(self) -> None:
        """See what other processes have done, and report the status."""
        for job in list(self._held):
            done = self._is_settled(job)
            if done or not RunDirectory(job.path).is_held():
                self._held.remove(job)
                self._waiting += [] if done else [job]
        self._looked = time.monotonic()
        self._tell(self._status())

    def _status(self) -> Status:
        waiting, busy, held = self._waiting, list(self._busy.values()), self._held
        unfinished = len(waiting) + len(busy) + len(held)
        now = time.monotonic()
        return Status(
            total=self.total,
            done=self.total - unfinished - len(self.failures),
            failed=len(self.failures),
            running=[each.running for each in busy],
            elsewhere=len(held),
            left=time_left(self._pace, waiting=waiting, busy=busy, held=held, cores=self.cores, now=now),
            short_of_memory=self._short_of_memory,
        )
