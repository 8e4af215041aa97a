"""Tells trackers of a run: every round once, whoever asks and however often the run was interrupted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import NonNegativeInt

from feddecorr.config.overrides import flatten
from feddecorr.core.files import read_json, reading, write_json
from feddecorr.core.paths import InnerPath
from feddecorr.core.registry import Config
from feddecorr.errors import UserError
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.record import Record
from feddecorr.runs.tracker import ARTIFACTS, Entry, Tracker

TRACKERS = {
    "tensorboard": "feddecorr.trackers.tensorboard:TensorBoard",
    "wandb": "feddecorr.trackers.wandb:WeightsAndBiases",
    "mlflow": "feddecorr.trackers.mlflow:MLflow",
}
"""Where each is; its library is an extra, which is loaded when it is asked for."""

TOLD = "told.json"


class Told(Config):
    """How much a tracker was told."""

    rounds: NonNegativeInt = 0
    artifacts: bool = False


class Follower:
    """One tracker of one run; `RUN/NAME/told.json` says how much of it the tracker was told."""

    def __init__(self, run: RunDirectory, name: str) -> None:
        self._run = run
        kind, folder = find_tracker(name), run.inside / name
        folder.make()
        _refuse_ways_out(folder, past=kind.past)
        for file in map(folder.__truediv__, folder.names()):
            if file.unfinished:
                file.remove()
        self._file = folder / TOLD
        self._told = _read_told(self._file)
        self._tracker = kind(
            folder.path, name=run.path.resolve().name, digest=run.experiment().digest(), number=self._told.rounds
        )

    def catch_up(self, record: Record | None = None) -> None:
        """Tell of all finished rounds that the tracker was not told of; the newest may be given."""
        done = self._told.rounds
        if done == 0:
            settings = flatten(self._run.experiment().to_dict())
            self._tracker.settings({key: _simple(value) for key, value in settings.items()})
        records = [record] if record is not None and record.round == done + 1 else self._run.rounds()
        for each in (each for each in records if each.round > done):
            self._tracker.entry(Entry.of(each))
            self._note(rounds=each.round)

    def close(self) -> None:
        """Hand over the files of a run that is done, and write down all that was told."""
        if not self._told.artifacts and self._told.rounds >= self._run.experiment().rounds:
            files = [self._run.inside / name for name in ARTIFACTS]
            self._tracker.artifacts([file.path for file in files if file.exists()])
            self._note(artifacts=True)
        self._tracker.close()

    def _note(self, **changes: Any) -> None:
        self._told = self._told.model_copy(update=changes)
        write_json(self._file, self._told.to_dict())


def _read_told(file: InnerPath) -> Told:
    if not file.exists():
        return Told()
    stored = read_json(file)
    with reading(file):
        return Told.parse(stored)


def _refuse_ways_out(folder: InnerPath, past: str) -> None:
    """Refuse links that lead out of a tracker's folder: its library opens files there by their paths."""
    root = folder.path.resolve()
    for place, folders, files in os.walk(root):
        for entry in (Path(place) / name for name in (*folders, *files)):
            if entry.is_symlink() and not entry.resolve().is_relative_to(root):
                raise UserError(f"{entry} leads out of {folder}: no link inside of a run is followed; remove it")
        folders[:] = [name for name in folders if not fnmatch(name, past)]


def find_tracker(name: str) -> type[Tracker]:
    """Return the tracker of that name; say what to install where its library is missing."""
    module, _, attribute = TRACKERS[name].partition(":")
    try:
        found: type[Tracker] = getattr(import_module(module), attribute)
    except ImportError as error:
        raise UserError(f"{name} is not there ({error}): pip install 'feddecorr[{name}]'") from error
    return found


@contextmanager
def following(run: RunDirectory, names: Sequence[str]) -> Iterator[Callable[[Record], None]]:
    """Give what tells these trackers of each new round; rounds that they have missed are told first."""
    with ExitStack() as stack:
        followers = []
        for name in names:
            followers.append(Follower(run, name))
            stack.callback(followers[-1].close)
        for follower in followers:
            follower.catch_up()

        def track(record: Record) -> None:
            for follower in followers:
                follower.catch_up(record)

        yield track


def _simple(value: Any) -> Any:
    """Return a value that every tracker takes."""
    return value if isinstance(value, bool | int | float | str) else json.dumps(value)
