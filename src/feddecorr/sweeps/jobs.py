"""The runs of some arms, each once."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from feddecorr.config.experiment import Experiment
from feddecorr.data import Data
from feddecorr.engines.serial import Serial
from feddecorr.results.study import Arm, Labels
from feddecorr.runs.directory import RunDirectory


@dataclass
class Job:
    """One run that has to be there: where it lies, and how far it is."""

    digest: str
    name: str
    experiment: Experiment
    path: Path
    finished: int = 0
    deaths: int = 0

    def look(self) -> bool:
        """See how far the run is on disk, whoever did it, and tell whether that is all the way."""
        self.finished = RunDirectory(self.path).finished_rounds()
        return self.left == 0

    @property
    def left(self) -> int:
        """The rounds that are missing."""
        return max(0, self.experiment.rounds - self.finished)


@cache
def _pinned(data: Data) -> Data:
    return data.pinned()


def address(experiment: Experiment) -> str:
    """Return the name of the run's directory: its digest, with data of one's own known by their content."""
    return experiment.model_copy(update={"data": _pinned(experiment.data)}).digest()


def plan(arms: Iterable[Arm], store: Path) -> list[Job]:
    """Return the runs of these arms, which lie in the store by their digests.

    Where arms share a run, it has the rounds of the longest, and is evaluated where any of them needs it.
    """
    jobs: dict[str, Job] = {}
    for arm in arms:
        digest = address(arm.experiment)
        known = jobs.get(digest)
        experiment = arm.experiment.model_copy(update={"engine": Serial()})
        if known:
            known.experiment = _both(known.experiment, experiment)
        else:
            jobs[digest] = Job(digest, _name(arm.labels), experiment, store / digest)
    return list(jobs.values())


def _name(labels: Labels) -> str:
    """Return the labels in few words: those that are numbers need to say of what."""
    return " ".join(
        f"{key} {value}" if isinstance(value, int | float) or value == "inf" else value for key, value in labels.items()
    )


def _both(one: Experiment, other: Experiment) -> Experiment:
    every, final = one.evaluation.every, max(one.evaluation.final, other.evaluation.final)
    if one.rounds != other.rounds and final > 1:
        every = 1  # what is last of the one is in the midst of the other
    elif every != other.evaluation.every:
        every = math.gcd(*(1 if each.evaluation.every == "auto" else each.evaluation.every for each in (one, other)))
    evaluation = one.evaluation.model_copy(update={"every": every, "final": final})
    return one.model_copy(update={"rounds": max(one.rounds, other.rounds), "evaluation": evaluation})


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
