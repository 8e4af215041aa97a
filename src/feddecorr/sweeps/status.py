"""How far many runs are, and why some of them are not there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from feddecorr.sweeps.jobs import Job
from feddecorr.sweeps.time_left import Pace, time_left


@dataclass(frozen=True)
class FailedRun:
    """Which run is not there, why, and where in the code it came up."""

    name: str
    reason: str
    trace: str | None = None


@dataclass(frozen=True)
class Running:
    """A run that is being done, and the round that it is in."""

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
    """A run that a worker does: the cores that it keeps, the processes that train for it, since when its round is on.

    `first` until the first round is done, which comes after loading the data.
    """

    job: Job
    cores: int
    processes: int
    since: float
    first: bool = True
    pausing: bool = False

    @property
    def running(self) -> Running:
        """What is told of it."""
        rounds = self.job.options.rounds
        return Running(self.job.name, min(self.job.finished + 1, rounds), rounds)


@dataclass(frozen=True)
class Left:
    """What is not done yet."""

    waiting: Sequence[Job]
    busy: Sequence[Busy]
    held: Sequence[Job]

    def seconds(self, pace: Pace, cores: int, now: float) -> float | None:
        """Return the time to the end; None before it is known.

        Runs that other processes do continue at the same time, and then they take more of those that wait.
        """
        waiting = [pace.seconds(job.digest, job.left, begun=False) for job in self.waiting]
        held = [pace.seconds(job.digest, job.left, begun=True) for job in self.held]
        busy = []
        for each in self.busy:
            seconds = pace.seconds(each.job.digest, each.job.left, begun=not each.first)
            busy.append(None if seconds is None else max(0.0, seconds / each.processes - (now - each.since)))
        ends = [seconds for seconds in (*busy, *held) if seconds is not None]
        rest = [seconds for seconds in waiting if seconds is not None]
        if len(ends) + len(rest) < len(waiting) + len(held) + len(busy):
            return None
        free = cores - sum(each.cores for each in self.busy)
        return time_left(ends, rest, max(1, free + len(ends)))
