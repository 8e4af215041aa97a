"""How far many runs are, roughly how long they still take, and whether memory allows one more."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from feddecorr.methods import METHODS
from feddecorr.models import MODELS
from feddecorr.sweeps.jobs import Job

POOL_PAYS = 10.0
"""Seconds that a run must still take before a pool pays, which takes about a second to start."""

ASSUMED_PEAK = 1 << 30
"""Bytes that a run is taken to need before the first of them has finished a round."""


@dataclass(frozen=True)
class FailedRun:
    """A run that failed, why, and where in the code."""

    name: str
    reason: str
    trace: str | None = None


@dataclass(frozen=True)
class Running:
    """A run in progress, and the round that it is in."""

    name: str
    round: int
    rounds: int


@dataclass(frozen=True)
class Status:
    """How far everything is; `elsewhere` are runs that another process does, `left` the seconds to the end."""

    total: int
    done: int
    failed: int
    running: Sequence[Running]
    elsewhere: int
    left: float | None
    short_of_memory: bool = False


Tell = Callable[[Status], None]


@dataclass
class Busy:
    """What a worker is doing: the run, its cores, the processes that train for it, when its current round began."""

    job: Job
    cores: int
    processes: int
    since: float
    pausing: bool = False

    @property
    def running(self) -> Running:
        """The run as a status shows it."""
        rounds = self.job.options.rounds
        return Running(self.job.name, min(self.job.finished + 1, rounds), rounds)


class Pace:
    """Learns the seconds of a pass over the training data, for each network and objective and over all of them."""

    def __init__(self) -> None:
        self._passes: dict[str, float] = defaultdict(float)
        self._seconds: dict[str, float] = defaultdict(float)

    @property
    def known(self) -> bool:
        """Whether any round was learnt."""
        return bool(self._passes)

    def learn(self, job: Job, core_seconds: float, rounds: int = 1) -> None:
        """Take note of rounds: their seconds, times the processes that trained."""
        for kind in (_kind(job), ""):
            self._passes[kind] += rounds * _passes_per_round(job)
            self._seconds[kind] += core_seconds

    def seconds(self, job: Job) -> float:
        """Return how long the rest of a run takes in one process; 0 before any round is known."""
        kind = _kind(job) if _kind(job) in self._passes else ""
        rate = self._seconds[kind] / self._passes[kind] if self.known else 0.0
        return job.left * _passes_per_round(job) * rate


def _kind(job: Job) -> str:
    experiment = job.experiment
    return "+".join([MODELS.name(experiment.model), METHODS.name(experiment.method), *experiment.regularizers])


def _passes_per_round(job: Job) -> float:
    training = job.experiment.training
    return job.experiment.rate * (training.epochs if training.steps is None else 1)


def time_left(
    pace: Pace, *, waiting: Sequence[Job], busy: Sequence[Busy], held: Sequence[Job], cores: int, now: float
) -> float | None:
    """Return the seconds to the end, None before any round is known; `held` are runs that other processes do.

    Those go on with the runs that they hold, and then take some of those that wait. It is the mean over the cores:
    none of them ends much later, since the last long runs are spread over idle ones.
    """
    if not pace.known and (waiting or busy or held):
        return None
    rests = [max(0.0, pace.seconds(each.job) / each.processes - (now - each.since)) for each in busy]
    rests += map(pace.seconds, held)
    free = cores - sum(each.cores for each in busy)
    return (sum(rests) + sum(map(pace.seconds, waiting))) / max(1, free + len(rests))


MEMINFO, CGROUP, STATUS = Path("/proc/meminfo"), Path("/sys/fs/cgroup"), Path("/proc/self/status")


def available_memory(meminfo: Path = MEMINFO, cgroup: Path = CGROUP) -> int | None:
    """Return the bytes that can be used without swapping, within a container's limit; None if this is not Linux."""
    machine = _read(meminfo, "MemAvailable:")
    limit, used = _read(cgroup / "memory.max"), _read(cgroup / "memory.current")
    known = [] if machine is None else [1024 * machine]
    if limit is not None and used is not None:
        cached = _read(cgroup / "memory.stat", "inactive_file") or 0  # the kernel drops these pages when it must
        known.append(limit - used + cached)
    return min(known, default=None)


def peak_memory(status: Path = STATUS) -> int:
    """Return the most bytes that this process ever had; 0 where the system does not say."""
    return 1024 * (_read(status, "VmHWM:") or 0)


def _read(file: Path, name: str = "") -> int | None:
    """Return the number after a name at the beginning of a line; None where there is none, or no such file."""
    try:
        found = re.search(rf"^{name}\s*(\d+)", file.read_text(errors="replace"), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) if found else None


def is_memory_short(running: Sequence[int], largest: int, *, kept: int = 0) -> bool:
    """Tell whether there is no room for one more run next to those that have these peaks so far.

    Each of them may still grow to the largest peak of any run. The process that would do the run has `kept` bytes of
    its own. A run that would be alone always has room.
    """
    need = largest or ASSUMED_PEAK
    growth = sum(max(0, need - peak) for peak in running)
    available = available_memory()
    return bool(running) and available is not None and available < growth + need - kept
