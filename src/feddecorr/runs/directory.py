"""A run on disk: a directory of JSON and safetensors files that is whole at every moment."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from feddecorr.errors import RunError, UserError
from feddecorr.federation import Federation, Roster
from feddecorr.files import (
    exclusive,
    keep_copy,
    load_tensors,
    read_json,
    reading,
    save_tensors,
    write_json,
)
from feddecorr.messages import Server
from feddecorr.rounds import Round
from feddecorr.runs.about import AboutData
from feddecorr.runs.environment import environment
from feddecorr.runs.memories import Memories, Tally
from feddecorr.runs.precision_probe import Choice
from feddecorr.runs.record import Record
from feddecorr.runs.roster_file import read_roster, write_roster
from feddecorr.runs.round_lines import RoundLines
from feddecorr.runs.weights_file import Mark, read_mark, write_weights
from feddecorr.settings.experiment import Experiment
from feddecorr.settings.trust import CLOSED, STRANGER, Trust
from feddecorr.states import State, lay_out, misfits

KEPT = ("shared", "memory")
"""Parts of the server, beside the model, that go to a file of their own."""

ROSTER = "roster.safetensors"
PRECISION = "precision.json"

COPIED = ": was the directory copied while the run went on?"


class RunDirectory:
    """A run on disk.

    `experiment.json`, `environment.json`, `roster.safetensors` and `federation.json` are written when it begins. After
    each round its line goes to `rounds.jsonl`, what the method keeps to `server/ROUND.safetensors`, and then the model
    replaces `weights.safetensors`: that file's note names the round, and so the round counts from that moment on.
    What was there before that round is kept in `previous` (and the method's in `server`): from it, the clients'
    models can be trained again, bit for bit.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.previous = self.path / "previous"
        self.memories = Memories(self.path / "clients")
        self._lines = RoundLines(self.path / "rounds.jsonl")
        self._tally = Tally({})
        self._is_ours: Callable[[], bool] = lambda: True

    @staticmethod
    def refuse_used(path: Path) -> None:
        """Refuse to touch a directory that holds anything."""
        if (path / "experiment.json").exists():
            raise UserError(
                f"{path} holds a run already: go on with it by 'feddecorr resume {path}', look at it by "
                f"'feddecorr show {path}', or choose another --out"
            )
        if path.exists() and (not path.is_dir() or any(not file.name.startswith(".") for file in path.iterdir())):
            raise UserError(f"{path} is not empty and holds no run: choose another --out")

    @classmethod
    def open(cls, path: str | Path) -> RunDirectory:
        """Take up a run that exists."""
        directory = cls(path)
        if not directory.exists():
            raise UserError(f"{path} holds no run (no experiment.json): 'feddecorr run … --out {path}' makes one")
        return directory

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep a second process from writing to the same run."""
        self.path.mkdir(parents=True, exist_ok=True)
        with exclusive(self.path / ".lock", f"{self.path} is being written by another process") as is_there:
            self._is_ours = is_there
            yield

    def is_held(self) -> bool:
        """Tell whether a process is at work on the run."""
        if not self.path.is_dir():
            return False
        try:
            with self.locked():
                return False
        except UserError:
            return True

    def take_up(self, federation: Federation, start: Server) -> tuple[int, Server]:
        """Return the last round that counts and the server after it; nothing is written.

        A run that exists must be this one, go on with the same data, and be whole.
        """
        if not self.exists():
            self.refuse_used(self.path)
            return 0, start
        self.refuse_other(federation.experiment)
        self._refuse_other_data(federation)
        number = len(self.rounds())
        self._tally = Tally(self.memories.newest(number))
        if not number:
            return 0, start
        weights = self.path / "weights.safetensors"
        if read_mark(weights).memories != str(self._tally):
            raise UserError(f"{self.memories.directory} is not as it was after round {number}{COPIED}")
        return number, self._load(weights, number, start)

    def begin(self, federation: Federation) -> None:
        """Write down what the run is, and drop traces of rounds that do not count.

        Of a run that exists, the number of rounds and whatever else changes no bit becomes the new experiment's.
        """
        experiment = federation.experiment
        if not self.exists() or experiment.to_dict() != self.described().to_dict():
            write_json(self.path / "experiment.json", experiment.to_dict())
        if not (self.path / "environment.json").exists():
            write_json(self.path / "environment.json", {**environment(), "together": asdict(federation.task.together)})
        if not (self.path / "federation.json").exists():
            about = AboutData(
                note=federation.note,
                classes=federation.task.classes,
                clients=len(federation.roster),
                data=federation.data,
                split=federation.split,
            )
            write_roster(self.path / ROSTER, federation.roster)
            write_json(self.path / "federation.json", about.to_dict())
        self._lines.cut(self.finished_rounds())
        self._drop_leftovers()

    def exists(self) -> bool:
        """Tell whether there is a run."""
        return (self.path / "experiment.json").is_file()

    def refuse_other(self, experiment: Experiment) -> None:
        """Refuse an experiment whose results would not be those of this run."""
        if different := list(differences(self.described().identity(), experiment.identity())):
            raise UserError(
                f"{self.path} holds another run ({', '.join(different)}): choose another --out; when a run is gone on "
                "with, only rounds, engine, trackers, evaluation.every, evaluation.final and evaluation.classes can be "
                "changed"
            )

    def _refuse_other_data(self, federation: Federation) -> None:
        begun = self.finished_rounds() or (self.path / "federation.json").exists()
        if not begun:
            return
        for part, now in (("data", federation.data), ("split", federation.split)):
            before = getattr(self.federation(), part)
            if before is not None and now is not None and before != now:
                raise UserError(f"{self.path} was begun on another {part}: its sha256 was {before}, now it is {now}")

    def is_done(self, experiment: Experiment) -> bool:
        """Tell whether the directory holds this very run with as many rounds, or more."""
        return (
            self.exists()
            and self.finished_rounds() >= experiment.rounds
            and self.described().identity() == experiment.identity()
        )

    def experiment(self, trust: Trust = STRANGER) -> Experiment:
        """Return the resolved experiment; code that it names is imported only with trust in who wrote it."""
        settings = read_json(self.path / "experiment.json")
        with reading(self.path / "experiment.json"):
            return Experiment.parse(settings, trust)

    def described(self) -> Experiment:
        """Return the resolved experiment to be looked at: nothing is imported, and what is not ours cannot be used."""
        return self.experiment(CLOSED)

    def settled(self, experiment: Experiment) -> Experiment:
        """Return the experiment, with what it leaves to a trial as that came out when the run began."""
        precision = self.described().training.precision if self.exists() else "auto"
        return experiment if precision == "auto" else experiment.settled(precision)

    def choose_precision(self, choice: Choice) -> None:
        """Write down what the trial found."""
        write_json(self.path / PRECISION, asdict(choice))

    def precision(self) -> Choice | None:
        """Return what was found by a trial when the run began; None if there was none."""
        file = self.path / PRECISION
        if not file.exists():
            return None
        stored = read_json(file)
        with reading(file):
            return TypeAdapter(Choice).validate_python(stored)

    def environment(self) -> dict[str, Any] | None:
        """Return versions, commit, machine and how clients train together since it began; None if it never did."""
        file = self.path / "environment.json"
        if not file.exists():
            return None
        stored = read_json(file)
        with reading(file):
            return dict(stored)

    def federation(self) -> AboutData:
        """Return what is kept of the data."""
        file = self.path / "federation.json"
        stored = read_json(file)
        with reading(file):
            return AboutData.parse(stored)

    def roster(self) -> Roster:
        """Return who holds how many examples and, where it is known, of which class."""
        roster, classes = read_roster(self.path / ROSTER), len(self.federation().classes)
        if roster.labels is not None and roster.labels.classes != classes:
            raise UserError(f"{self.path / ROSTER} counts {roster.labels.classes} classes, federation.json {classes}")
        return roster

    def finished_rounds(self) -> int:
        """Return the number of rounds that count."""
        file = self.path / "weights.safetensors"
        return read_mark(file).round if file.exists() else 0

    def rounds(self) -> list[Record]:
        """Return the records of all rounds that count."""
        return self._lines.read(self.finished_rounds())

    def last_round(self) -> Record:
        """Return the record of the last round that counts."""
        return self._lines.read_last(self.finished_rounds())

    def to_dict(self) -> dict[str, Any]:
        """Return all that is known of the run but its tensors, ready for JSON."""
        return {
            "directory": str(self.path),
            "experiment": self.described().to_dict(),
            "environment": self.environment(),
            "rounds": [record.to_dict() for record in self.rounds()],
        }

    def commit(self, now: Round, record: Record) -> None:
        """Make a round count."""
        if not self._is_ours():
            raise RunError(f"{self.path} was removed or replaced while the run went on: its rounds are lost")
        self._lines.append(record)
        kept = {
            f"{section}/{name}": tensor for section in KEPT for name, tensor in getattr(now.server, section).items()
        }
        if kept:
            (self.path / "server").mkdir(exist_ok=True)
            save_tensors(self._server_file(now.number), kept)
        remembering = self.memories.of_round(now.clients, now.number)
        for client in remembering:
            self._tally.note(client, now.number)
        mark = Mark(round=now.number, server=self._server_digest(now.number), memories=str(self._tally))
        weights = self.path / "weights.safetensors"
        if weights.exists():
            self.previous.mkdir(exist_ok=True)
            keep_copy(weights, self.previous / "weights.safetensors")
        write_weights(weights, {**now.server.weights, **now.server.buffers}, mark)
        self._server_file(now.number - 2).unlink(missing_ok=True)
        self.memories.settle(remembering, now.number, aside=self.previous / "clients")

    def take_up_previous(self, start: Server) -> Server | None:
        """Return the server before the last round that counts; None if it was not kept."""
        number = self.finished_rounds() - 1
        file = self.previous / "weights.safetensors"
        if number < 1:
            return start if number == 0 else None
        return self._load(file, number, start) if file.exists() and read_mark(file).round == number else None

    def _load(self, file: Path, number: int, start: Server) -> Server:
        state = load_tensors(file)
        if problems := misfits(state, {**start.weights, **start.buffers}, types=True):
            raise UserError(f"{file} does not fit the model ({'; '.join(problems)})")
        if read_mark(file).server != self._server_digest(number):
            raise UserError(f"{self._server_file(number)} is not as it was after round {number}{COPIED}")
        sections: dict[str, State] = {section: {} for section in KEPT}
        if self._server_file(number).exists():
            kept = load_tensors(self._server_file(number))
            with reading(self._server_file(number)):
                for name, tensor in kept.items():
                    section, _, key = name.partition("/")
                    sections[section][key] = tensor
        weights = lay_out({name: state[name] for name in start.weights}, start.weights)
        buffers = {name: state[name] for name in start.buffers}
        return Server(weights, buffers, **sections)

    def tidy(self) -> None:
        """Remove what a process left that was killed right after the last round."""
        if list(self._old_servers()):
            with self.locked():
                self._drop_leftovers()

    def _old_servers(self) -> Iterator[Path]:
        kept = [self._server_file(self.finished_rounds() - age) for age in (0, 1)]
        yield from (file for file in (self.path / "server").glob("*.safetensors") if file not in kept)

    def _drop_leftovers(self) -> None:
        """Remove what a killed process may have left: servers of other rounds, and files that were being written."""
        hidden = (file for file in self.path.rglob(".*") if file.name != ".lock" and file.is_file())
        for file in [*self._old_servers(), *hidden]:
            file.unlink()

    def _server_digest(self, number: int) -> str:
        """Return the sha256 of what the method keeps after a round; nothing if it keeps nothing."""
        file = self._server_file(number)
        return hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else ""

    def _server_file(self, number: int) -> Path:
        return self.path / "server" / f"{number}.safetensors"


def differences(one: Mapping[str, Any], other: Mapping[str, Any], place: str = "") -> Iterator[str]:
    """Yield the dotted names of settings that differ."""
    for key in sorted({*one, *other}):
        mine, theirs = one.get(key), other.get(key)
        if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
            yield from differences(mine, theirs, f"{place}{key}.")
        elif mine != theirs:
            yield f"{place}{key}: {mine} there, {theirs} here"
