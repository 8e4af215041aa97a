"""The process that drives Ray, `-m feddecorr.sweeps.ray_driver HOME SOCKET`: runs as its tasks.

It holds the locks of the runs that it has handed over, and keeps in their directories what comes back of their rounds:
a run whose node dies continues from there on another one.
"""

from __future__ import annotations

import math
import os
import platform
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.queue import Queue
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from feddecorr.config.experiment import Experiment
from feddecorr.core.devices import on_host
from feddecorr.core.paths import HeldError, InnerPath
from feddecorr.core.temporary import temporary_folder
from feddecorr.core.trust import VARIABLE
from feddecorr.data import DATA
from feddecorr.data.dataset import Data
from feddecorr.data.public import is_missing
from feddecorr.engines.pool import Pool
from feddecorr.engines.processes import keep_freed_memory
from feddecorr.errors import UserError
from feddecorr.runs.directory import LOCK, RunDirectory, kind_of_processor
from feddecorr.settings.options import RunOptions
from feddecorr.sweeps.jobs import Job
from feddecorr.sweeps.on_ray import GRACE, Note, OnRay
from feddecorr.sweeps.runner import Ended, Failed, available_cores, do_run
from feddecorr.sweeps.shipping import Changes, Outbox
from feddecorr.sweeps.status import Busy, FailedRun, Pace, Status, peak_memory, time_left

TICK = 0.2
"""Seconds between two looks at the tasks."""

MOST_TASKS = 256
"""Tasks that Ray has at once; each has an open file here, its lock."""

MOST_DEATHS = 3
"""How often in a row the process of a run may die, or its node, without a round that came back."""

QUEUE = 64
"""Messages that may wait for the driver; those who send more wait for it."""

DECIDING = ("feddecorr", "torch")
"""Packages whose versions decide the bits of a run."""


@dataclass(frozen=True)
class Shipment:
    """What a task sends of its run: the round it has done, and what changed in the directory since the last time."""

    attempt: int
    round: int
    seconds: float
    memory: int
    changes: Changes


@dataclass(frozen=True)
class NodeReport:
    """What a node has: versions, its kind of processor, and the digests of data; None for those that are missing."""

    versions: Mapping[str, str]
    processor: str
    data: Sequence[str | None]


def look_at_node(data: Sequence[Data]) -> NodeReport:
    """Return what this machine has."""
    digests = [None if is_missing(each) else each.load().sha256 for each in data]
    return NodeReport({name: version(name) for name in DECIDING}, kind_of_processor(), digests)


def do_task(
    experiment: Experiment, options: RunOptions, known: Changes, attempt: int, interval: float, queue: Queue
) -> Ended | Failed:
    """Do a run on this node, from what is known of it, and send what comes of it."""
    keep_freed_memory()
    with temporary_folder() as folder:
        path = folder / "run"
        path.mkdir()
        outbox = Outbox(path, known)
        before = RunDirectory(path).finished_rounds()
        since = time.monotonic()

        def send() -> None:
            nonlocal before, since
            done, began = RunDirectory(path).finished_rounds(), time.monotonic()
            queue.put(Shipment(attempt, done, began - since, peak_memory(), outbox.changes()))
            outbox.note(began)
            before, since = done, time.monotonic()

        def after_round(_number: int) -> bool:
            if outbox.is_due(interval):
                send()
            return True

        send()  # that it has begun
        answer: Ended | Failed = do_run(experiment, options, path, after_round=after_round)
        send()
        return answer


@dataclass
class RayTask:
    """A run that Ray has, and its lock."""

    job: Job
    attempt: int
    busy: Busy
    begun: bool = False
    lock: ExitStack = field(default_factory=ExitStack)


class RayRunner:
    """Hands runs to Ray until none is left."""

    def __init__(self, jobs: Sequence[Job], chosen: OnRay, connection: Connection) -> None:
        self.failures: dict[str, FailedRun] = {}
        self._chosen, self._connection, self._total = chosen, connection, len(jobs)
        self._waiting = [job for job in jobs if not self._is_settled(job)]
        self._held: list[Job] = []
        self._tasks: dict[Any, RayTask] = {}
        self._attempts = count()
        self._pace = Pace()
        self._cores, self._largest = 1, 1

    def check_nodes(self) -> None:
        """Refuse nodes that would do other runs than this machine, and say what makes them fit."""
        data = list({job.experiment.data: None for job in self._waiting})
        everything: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
        nodes = [node for node in everything if node["Alive"] and node["Resources"].get("CPU")]
        self._cores = int(sum(node["Resources"]["CPU"] for node in nodes))
        self._largest = int(max((node["Resources"]["CPU"] for node in nodes), default=1))
        look = ray.remote(num_cpus=0, max_retries=0)(look_at_node)
        asked = {
            f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})#{number}": look.options(
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            ).remote(data)
            for number, node in enumerate(nodes, start=1)
        }
        here = look_at_node(data)
        reports: dict[str, NodeReport] = {}
        problems: list[str] = []
        for name, ref in asked.items():
            try:
                reports[name] = ray.get(ref)
            except RayTaskError as error:
                needed = f"feddecorr[ray]=={version('feddecorr')}"
                problems.append(f"node {name} cannot use feddecorr ({_last(error)}): run there: pip install '{needed}'")
            except RayError:  # it died while it was looked at: nothing will be done there
                continue
        for name, found in reports.items():
            problems += [f"node {name} {problem}" for problem in _differences(found, here, data)]
        for what, most in (("GPU", self._chosen.gpus), ("memory", self._chosen.memory)):
            largest = max((node["Resources"].get(what, 0) for node in nodes), default=0)
            if most and most > largest:
                problems.append(f"a run is to have {most:g} of {what}, and no node has more than {largest:g}")
        if problems:
            raise UserError("\n".join(problems))
        kinds = sorted({found.processor for found in reports.values()})
        if len(kinds) > 1:
            self._connection.send(
                Note(
                    f"the nodes have processors of {len(kinds)} kinds ({', '.join(kinds)}): the last bits of a run may "
                    "depend on where it is done, and its record names the kinds (environment, processors)"
                )
            )

    def run(self) -> None:
        """Continue until all runs are done, or have failed."""
        self._queue = Queue(
            QUEUE,
            actor_options={
                "num_cpus": 0,
                "scheduling_strategy": NodeAffinitySchedulingStrategy(
                    ray.get_runtime_context().get_node_id(), soft=False
                ),
            },
        )
        self._queue.qsize()  # once it answers, it is there: no task need wait for that
        while self._waiting or self._tasks or self._held:
            self._submit()
            done = ray.wait(list(self._tasks), timeout=TICK)[0] if self._tasks else []
            self._receive()
            for ref in done:
                self._end(ref)
            self._look_around()
            if self._connection.poll(0 if self._tasks else TICK):  # an interrupt, or the end of the run
                self._cancel()
                return
        self._connection.send(self._status())

    def _cancel(self) -> None:
        for ref in self._tasks:
            ray.cancel(ref)
        if self._tasks:
            ray.wait(list(self._tasks), num_returns=len(self._tasks), timeout=GRACE / 4)
        self._receive()

    def _submit(self) -> None:
        """Hand over the next runs; Ray decides which of them begins when, and where."""
        most = self._chosen.jobs or math.inf
        while self._waiting and len(self._tasks) < MOST_TASKS:
            job = self._waiting[0]
            cores, options = self._share(job)
            if self._tasks and sum(task.busy.cores for task in self._tasks.values()) + cores > most:
                return
            self._waiting.pop(0)
            if not self._is_settled(job):
                self._hand_over(job, cores, options)

    def _share(self, job: Job) -> tuple[int, RunOptions]:
        """Return the cores that a run needs, and its options with as many workers."""
        threads, engine = job.experiment.training.threads, job.options.engine
        cores = max(1, min(self._largest, threads * engine.parallel_jobs(threads)))
        if not isinstance(engine, Pool):
            return cores, job.options
        pool = engine.model_copy(update={"workers": max(1, cores // threads)})
        return cores, job.options.model_copy(update={"engine": pool})

    def _hand_over(self, job: Job, cores: int, options: RunOptions) -> None:
        task = RayTask(job, next(self._attempts), Busy(job, cores, max(1, cores), time.monotonic()))
        try:
            job.path.mkdir(parents=True, exist_ok=True)
            task.lock.enter_context((InnerPath(job.path) / LOCK).held())
            known = Outbox(job.path).changes() if RunDirectory(job.path).exists() else Changes({})
        except HeldError:
            self._held.append(job)
            return
        except (UserError, OSError) as error:
            task.lock.close()
            self._fail(job, str(error))
            return
        gpus = self._chosen.gpus
        needs: dict[str, Any] = {
            "num_cpus": cores,
            "num_gpus": gpus if gpus is not None else float(not on_host(options.device)),
            "max_retries": 0,
        }
        if self._chosen.memory:
            needs["memory"] = self._chosen.memory
        do = ray.remote(**needs)(do_task)
        ref = do.options(name=f"feddecorr {job.digest}").remote(
            job.experiment, options, known, task.attempt, self._chosen.interval, self._queue
        )
        self._tasks[ref] = task

    def _receive(self) -> None:
        """Keep what has come back; what an attempt sends that counts no more is dropped."""
        tasks = {task.attempt: task for task in self._tasks.values()}
        while size := self._queue.qsize():
            for shipment in self._queue.get_nowait_batch(size):
                if task := tasks.get(shipment.attempt):
                    self._keep(task, shipment)

    def _keep(self, task: RayTask, shipment: Shipment) -> None:
        job, rounds = task.job, shipment.round - task.job.finished
        try:
            shipment.changes.apply(job.path)
        except (UserError, OSError) as error:
            self._fail(job, str(error))
            return
        if rounds > 0:
            self._pace.learn(job, shipment.seconds * task.busy.processes, rounds)
            job.deaths = 0
        task.begun, task.busy.since, job.finished = True, time.monotonic(), shipment.round

    def _end(self, ref: Any) -> None:
        """Decide what becomes of a run whose task is over."""
        task = self._tasks.pop(ref)
        job = task.job
        task.lock.close()
        try:
            answer = ray.get(ref)
        except RayTaskError as error:
            self._fail(job, _last(error), _plain(error))
            return
        except RayError as error:  # its process or its node is gone
            job.deaths += 1
            if job.deaths < MOST_DEATHS:
                self._waiting.insert(0, job)
            else:
                why = f"it died {job.deaths} times in round {job.finished + 1}, the last time so: {_last(error)}"
                self._fail(job, why)
            return
        if isinstance(answer, Failed):
            self._fail(job, answer.reason, answer.trace)
        elif job.digest not in self.failures and not self._is_settled(job):
            self._fail(job, f"it ended after round {job.finished} of {job.options.rounds}")

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
        for job in list(self._held):
            done = self._is_settled(job)
            if done or not RunDirectory(job.path).is_held():
                self._held.remove(job)
                self._waiting += [] if done else [job]
        self._connection.send(self._status())

    def _status(self) -> Status:
        begun = [task.busy for task in self._tasks.values() if task.begun]
        waiting = [*self._waiting, *(task.job for task in self._tasks.values() if not task.begun)]
        unfinished = len(self._waiting) + len(self._tasks) + len(self._held)
        cores, now = min(self._cores, self._chosen.jobs or self._cores), time.monotonic()
        return Status(
            total=self._total,
            done=self._total - unfinished - len(self.failures),
            failed=len(self.failures),
            running=[busy.running for busy in begun],
            elsewhere=len(self._held),
            left=time_left(self._pace, waiting=waiting, busy=begun, held=self._held, cores=cores, now=now),
        )


def _differences(found: NodeReport, here: NodeReport, data: Sequence[Data]) -> Iterator[str]:
    """Yield how a node differs from this machine, and the command that mends it."""
    for name, mine in here.versions.items():
        if (theirs := found.versions[name]) != mine:
            yield f"has {name} {theirs}, here it is {mine}: run there: pip install '{name}=={mine}'"
    for each, own, digest in zip(data, here.data, found.data, strict=True):
        name = DATA.name(each)
        if digest is None:
            yield f"does not have {name}: run there: feddecorr data get {name}"
        elif own is not None and digest != own:
            yield f"has another {name}: its sha256 is {digest}, here it is {own}: copy it from here"


def _last(error: Exception) -> str:
    """Return the last line of what Ray says, which names the cause."""
    return (_plain(error).splitlines() or [type(error).__name__])[-1]


def _plain(error: Exception) -> str:
    """Return what Ray says, without its colours."""
    return re.sub(r"\x1b\[\d*m", "", str(error)).strip()


CONNECTIONS = 3
"""How often to try a client server of Ray that does not start in time, as a cluster's first one may."""


def connect(home: Path, chosen: OnRay, search_path: str) -> None:
    """Join the cluster, or start one of this machine's cores; on a cluster, the user's own modules are searched for."""
    quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
    if not chosen.address:
        os.environ["TMPDIR"] = str(home / "cwd")  # what killed workers leave there goes with it
        ray.init(num_cpus=chosen.jobs or available_cores(), include_dashboard=False, **quiet)
        return
    known = {VARIABLE: "*", **({"PYTHONPATH": search_path} if search_path else {})}
    for attempt in range(1, CONNECTIONS + 1):
        try:
            ray.init(address=chosen.address, runtime_env={"env_vars": known}, **quiet)
            return
        except ConnectionError as error:
            if attempt == CONNECTIONS or "client server failed" not in str(error):
                raise


def main(home: Path, descriptor: int) -> None:
    """Do the runs that the connection names, and answer with how far they are, and which of them failed."""
    os.set_inheritable(descriptor, False)
    with Connection(descriptor) as connection:
        chosen, jobs, search_path = connection.recv()
        try:
            connect(home, chosen, search_path)
        except Exception as error:  # Ray has many, for a wrong address, a wrong token or another version
            hint = f"is there a cluster at {chosen.address}, with Ray {ray.__version__} and Python "
            hint += f"{platform.python_version()}, and is its token in RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH?"
            why = f"Ray cannot be reached: {_last(error)}" if chosen.address else f"Ray cannot be started: {error}"
            connection.send(UserError(f"{why}; {hint}" if chosen.address else why))
            return
        runner = RayRunner(jobs, chosen, connection)
        try:
            runner.check_nodes()
            runner.run()
            connection.send(runner.failures)
        except UserError as error:
            connection.send(error)
        ray.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
