"""The runs of a study's arms, each once, and their results, from the runs themselves or from records of them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from feddecorr.config.experiment import Experiment
from feddecorr.data.dataset import Data
from feddecorr.errors import UserError
from feddecorr.results.names import name_arm
from feddecorr.results.study import Arm, Labels, Result
from feddecorr.results.summary import Summary
from feddecorr.runs.directory import RunDirectory
from feddecorr.settings.options import RunOptions
from feddecorr.training.task import Task

CLIENTS: tuple[bool | str, ...] = (False, "last", True)
LABELS = ("last", "always")
"""Values of `evaluation.clients` and `evaluation.label_measures`, the least first."""


@dataclass(frozen=True)
class RunShard:
    """One of several parts of all runs, counted from 1.

    A run's digest alone decides in which part it is, whatever else is to be done.
    """

    number: int = 1
    count: int = 1

    @classmethod
    def parse(cls, word: str) -> RunShard:
        """Read `2/4`."""
        found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", word, re.ASCII)
        shard = cls(*map(int, found.groups())) if found else cls(0)
        if not 1 <= shard.number <= shard.count:
            raise UserError(f"--shard {word}: expected i/n with i from 1 to n, such as 1/4, 2/4, 3/4 and 4/4")
        return shard

    def __contains__(self, digest: str) -> bool:
        return int(digest, 16) % self.count == self.number - 1

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


@dataclass
class Job:
    """One run to be done: where it lies, and how far it is."""

    digest: str
    name: str
    experiment: Experiment
    options: RunOptions
    path: Path
    finished: int = 0
    deaths: int = 0

    def look(self) -> bool:
        """Read from disk how far the run is, and tell whether it is done."""
        self.finished = RunDirectory(self.path).finished_rounds()
        return self.left == 0

    @property
    def left(self) -> int:
        """The rounds that are missing."""
        return max(0, self.options.rounds - self.finished)

    def images(self) -> float | None:
        """Return how many images its clients still have to see; None where its data cannot be read here."""
        try:
            return self.left * self.experiment.trained_images(_count(self.experiment.data))
        except UserError:
            return None


@cache
def _pinned(data: Data) -> Data:
    return data.pinned()


@cache
def _look(data: Data) -> tuple[tuple[int, int, int], tuple[str, ...], tuple[float, ...], tuple[float, ...]]:
    dataset = data.load()
    return dataset.shape, dataset.classes, dataset.mean, dataset.std


@cache
def _count(data: Data) -> int:
    return len(data.load().train)


@cache
def resolved(experiment: Experiment, options: RunOptions) -> Experiment:
    """Return the experiment as its run will have it: data by their content, and `auto` resolved."""
    if options.auto_batching:
        task = Task(experiment, *_look(experiment.data), options.device, options.evaluation)
        experiment = task.choose_batching()[0].experiment
    return experiment.model_copy(update={"data": _pinned(experiment.data)})


def address(arm: Arm) -> str:
    """Return the name of the run's directory: the digest of its experiment."""
    return resolved(arm.experiment, arm.options).digest()


def plan(arms: Iterable[Arm], store: Path) -> list[Job]:
    """Return the runs of these arms, stored by their digests.

    Arms with the same experiment share one run: it has the most rounds, and is evaluated where any of them needs it.
    """
    jobs: dict[str, Job] = {}
    for arm in arms:
        digest = address(arm)
        if known := jobs.get(digest):
            known.options = _both(known.options, arm.options)
        else:
            jobs[digest] = Job(digest, _name(arm), arm.experiment, arm.options, store / digest)
    return list(jobs.values())


def _name(arm: Arm) -> str:
    """Return what a reader calls the run."""
    labels: Labels = {key: value for key, value in arm.labels.items() if key != "seed"}
    return f"{name_arm(labels, arm.experiment.to_dict()).whole}, seed {arm.experiment.seed}"


def _both(one: RunOptions, other: RunOptions) -> RunOptions:
    """Return options under which a run records all that either asks for."""
    mine, theirs = one.evaluation, other.evaluation
    every, final = mine.every, max(mine.final, theirs.final)
    if one.rounds != other.rounds and final > 1:
        every = 1  # the last rounds of one are in the middle of the other
    elif every != theirs.every:
        every = math.gcd(*(1 if each.every == "auto" else each.every for each in (mine, theirs)))
    changes = {
        "every": every,
        "final": final,
        "clients": max(mine.clients, theirs.clients, key=CLIENTS.index),
        "epochs": mine.epochs or theirs.epochs,
        "label_measures": max(mine.label_measures, theirs.label_measures, key=LABELS.index),
    }
    rounds = max(one.rounds, other.rounds)
    return one.model_copy(update={"rounds": rounds, "evaluation": mine.model_copy(update=changes)})


def results_of(arms: Sequence[Arm], store: Path, known: Sequence[Summary] = ()) -> list[Result]:
    """Look the arms up in the store and then in records; a run that is complete in neither is missing."""
    of_runs = [_of_run(arm, store / address(arm)) for arm in arms]
    of_records = results_of_records(arms, known)
    return [run if run.summary else record for run, record in zip(of_runs, of_records, strict=True)]


def unknown(arms: Sequence[Arm], known: Sequence[Summary]) -> list[Arm]:
    """Return the arms whose complete runs are not in the records."""
    found = results_of_records(arms, known)
    return [arm for arm, result in zip(arms, found, strict=True) if result.summary is None]


def _of_run(arm: Arm, path: Path) -> Result:
    try:
        if RunDirectory(path).finished_rounds() < arm.options.rounds:
            return Result(arm.labels, None)
        return Result(arm.labels, Summary.of(RunDirectory.open(path), arm.options), path)
    except UserError:  # the runner has reported it
        return Result(arm.labels, None)


def results_of_records(arms: Sequence[Arm], summaries: Sequence[Summary]) -> list[Result]:
    """Look the arms up in records; incomplete runs are missing."""
    known = {summary.digest: summary for summary in summaries}
    return [_of_record(arm, known.get(address(arm))) for arm in arms]


def _of_record(arm: Arm, summary: Summary | None) -> Result:
    """Accept a record that has all rounds and, where they are asked for, the clients' models and losses."""
    if summary is None or len(summary.rounds) < arm.options.rounds:
        return Result(arm.labels, None)
    found = summary.as_asked(arm.options)
    asked = arm.options.evaluation
    lacks = (asked.clients and not found.local_models) or (asked.epochs and not found.local_terms)
    return Result(arm.labels, None if lacks else found)
