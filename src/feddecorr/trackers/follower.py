"""Tells trackers of a run: every round once, whoever asks and however often the run was interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any

from feddecorr.errors import UserError
from feddecorr.files import write_json
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.record import Record
from feddecorr.settings.words import flatten
from feddecorr.trackers.tracker import ARTIFACTS, Entry, Tracker

TRACKERS = {
    "tensorboard": "feddecorr.trackers.tensorboard_tracker:TensorBoard",
    "wandb": "feddecorr.trackers.wandb_tracker:WeightsAndBiases",
    "mlflow": "feddecorr.trackers.mlflow_tracker:MLflow",
}
"""Where each is; its library is an extra, which is loaded when it is asked for."""

Told = dict[str, Any]


class Follower:
    """One tracker of one run; `RUN/NAME/told.json` says how much of it the tracker was told."""

    def __init__(self, run: RunDirectory, name: str) -> None:
        self._run = run
        self._folder = run.path / name
        self._file = self._folder / "told.json"
        self._told: Told = (
            json.loads(self._file.read_text()) if self._file.exists() else {"rounds": 0, "artifacts": False}
        )
        self._folder.mkdir(parents=True, exist_ok=True)
        digest = run.experiment().digest()
        self._tracker = find_tracker(name)(
            self._folder, name=run.path.resolve().name, digest=digest, number=self._told["rounds"]
        )

    def catch_up(self, record: Record | None = None) -> None:
        """Tell of all finished rounds that the tracker was not told of; the newest may be given."""
        done = self._told["rounds"]
        if done == 0:
            settings = flatten(self._run.experiment().to_dict())
            self._tracker.settings({key: _simple(value) for key, value in settings.items()})
        records = [record] if record is not None and record.round == done + 1 else self._run.rounds()[done:]
        for each in records:
            self._tracker.entry(Entry.of(each))
            self._note(rounds=each.round)

    def close(self) -> None:
        """Hand over the files of a run that is done, and write down all that was told."""
        if not self._told["artifacts"] and self._told["rounds"] >= self._run.experiment().rounds:
            self._tracker.artifacts([self._run.path / name for name in ARTIFACTS if (self._run.path / name).exists()])
            self._note(artifacts=True)
        self._tracker.close()

    def _note(self, **changes: Any) -> None:
        self._told |= changes
        write_json(self._file, self._told)


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
