"""Hands the rounds of a run to its trackers: every round once, however often the run was interrupted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from pydantic import NonNegativeInt

from feddecorr.config.experiment import Experiment
from feddecorr.config.overrides import flatten
from feddecorr.core.files import write_json
from feddecorr.core.paths import InnerPath
from feddecorr.core.registry import Config
from feddecorr.errors import UserError
from feddecorr.runs.directory import RunDirectory, read_parsed
from feddecorr.runs.record import Record
from feddecorr.settings.flat import to_settings
from feddecorr.settings.options import RunOptions
from feddecorr.trackers import Tracker, TrackerEntry

ARTIFACTS = ("experiment.json", "environment.json", "federation.json", "weights.safetensors")
"""The files of a run that a tracker keeps, when it is done."""

TRACKED = "tracked.json"

WRITTEN = (TRACKED, "run_id")
"""The files of a tracker's folder that are written here, and by MLflow's tracker; the library writes all others."""


class Tracked(Config):
    """How much a tracker has received."""

    rounds: NonNegativeInt = 0
    artifacts: bool = False


class Follower:
    """One tracker of one run; `RUN/NAME/tracked.json` says how much of it the tracker has received.

    The experiment and the options are those of the run, in memory: what the run's file names is not imported for it.
    """

    def __init__(self, run: RunDirectory, name: str, tracker: Tracker, settings: tuple[Experiment, RunOptions]) -> None:
        self._run = run
        self._experiment, self._options = settings
        folder = run.inside / folder_name(name)
        folder.make()
        _refuse_ways_out(folder, past=tracker.past)
        for file in map(folder.__truediv__, folder.names()):
            if file.unfinished in WRITTEN:
                file.remove()
        self._file = folder / TRACKED
        self._tracked = read_parsed(self._file, Tracked.parse) if self._file.exists() else Tracked()
        try:
            self._log = tracker.open(
                folder.path,
                name=run.path.resolve().name,
                digest=self._experiment.digest(),
                number=self._tracked.rounds,
            )
        except ImportError as error:
            raise UserError(f"{name} is not installed ({error}): pip install 'feddecorr[{name}]'") from error

    def catch_up(self, record: Record | None = None) -> None:
        """Hand over all finished rounds that the tracker lacks; the newest may be given."""
        done = self._tracked.rounds
        if done == 0 and record is None:
            settings = flatten(to_settings(self._experiment, self._options))
            self._log.settings({key: _simple(value) for key, value in settings.items()})
        records = [record] if record is not None and record.round == done + 1 else self._run.rounds()
        for each in (each for each in records if each.round > done):
            self._log.entry(entry_of(each))
            self._note(rounds=each.round)

    def close(self) -> None:
        """Hand over the files of a run that is done, and close the log."""
        if not self._tracked.artifacts and self._tracked.rounds >= self._options.rounds:
            files = [self._run.inside / name for name in ARTIFACTS]
            self._log.artifacts([file.path for file in files if file.exists()])
            self._note(artifacts=True)
        self._log.close()

    def _note(self, **changes: Any) -> None:
        self._tracked = self._tracked.model_copy(update=changes)
        write_json(self._file, self._tracked.to_dict())


def folder_name(name: str) -> str:
    """Return the name of a tracker's folder in the run's directory."""
    return name.replace(":", "-")


def entry_of(record: Record) -> TrackerEntry:
    """Return a record for trackers: the global model's measures by name, terms and clients below folders of theirs."""
    scalars: dict[str, float] = {"seconds": record.seconds, "missing": len(record.missing)}
    scalars |= {} if record.sent is None else {"sent": record.sent}
    scalars |= {f"clients/{client}/received": size for client, size in record.received.items()}
    scalars |= {
        f"adapters/{layer}/{name}": rank
        for layer, ranks in record.adapters.items()
        for name, rank in asdict(ranks).items()
    }
    spectra: dict[str, Sequence[float]] = {}
    models = {"": record.model} | {f"clients/{client}/": found for client, found in record.local_models.items()}
    for place, model in models.items():
        for name, value in (model.recorded() | (model.measures or {}) if model else {}).items():
            if isinstance(value, int | float):
                scalars[place + name] = float(value)
            elif name == "singular_values":
                spectra[place + name] = value
    averaging = {} if record.averaging is None else asdict(record.averaging)
    scalars |= {f"averaging/{name}": value for name, value in averaging.items() if isinstance(value, int | float)}
    scalars |= {f"terms/{name}": value for name, value in record.terms.items()}
    for client, terms in record.local_terms.items():
        scalars |= {f"clients/{client}/terms/{name}": values[-1] for name, values in terms.items()}
    return TrackerEntry(record.round, scalars, spectra)


def _refuse_ways_out(folder: InnerPath, past: str) -> None:
    """Refuse what is no file of a tracker's folder: its library opens files there by their paths, and would wait."""
    root = folder.path.resolve()
    for place, folders, files in os.walk(root):
        for entry in (Path(place) / name for name in (*folders, *files)):
            if entry.is_symlink() and not entry.resolve().is_relative_to(root):
                raise UserError(f"{entry} leads out of {folder}: no link inside of a run is followed; remove it")
            if not (entry.is_symlink() or entry.is_dir() or entry.is_file()):
                raise UserError(f"{entry} is not a file (a named pipe, a socket or a device): remove it")
        folders[:] = [name for name in folders if not fnmatch(name, past)]


@contextmanager
def following(
    run: RunDirectory, trackers: Mapping[str, Tracker], experiment: Experiment, options: RunOptions
) -> Iterator[Callable[[Record], None]]:
    """Yield a function that hands each new round to these trackers; rounds that they lack are handed over first."""
    with ExitStack() as stack:
        followers = []
        for name, tracker in trackers.items():
            followers.append(Follower(run, name, tracker, (experiment, options)))
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
