"""A run on disk: a directory of JSON and safetensors files that is whole at every moment."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from feddecorr.config.experiment import Experiment
from feddecorr.core.client_memory import SUFFIX, Memories, MemoryChecksum, numbered
from feddecorr.core.files import digest_of, load_tensors, read_json, reading, save_tensors, write_json
from feddecorr.core.messages import Server
from feddecorr.core.paths import HeldError, InnerPath
from feddecorr.core.states import State, match_layout, misfits
from feddecorr.core.trust import CLOSED, STRANGER, Trust
from feddecorr.errors import RunError, UserError
from feddecorr.runs.about import AboutData
from feddecorr.runs.environment import environment
from feddecorr.runs.record import Record
from feddecorr.runs.roster_file import read_roster, write_roster
from feddecorr.runs.round_lines import Lines, RoundLines
from feddecorr.runs.weights_file import Mark, read_mark, write_weights
from feddecorr.server.federation import Federation, Roster
from feddecorr.server.rounds import Round

KEPT = ("shared", "memory")
"""Parts of the server, beside the model, that go to a file of their own."""

EXPERIMENT = "experiment.json"
ENVIRONMENT = "environment.json"
FEDERATION = "federation.json"
ROSTER = "roster.safetensors"
ROUNDS = "rounds.jsonl"
WEIGHTS = "weights.safetensors"
FILES = (EXPERIMENT, ENVIRONMENT, FEDERATION, ROSTER, ROUNDS, WEIGHTS)
FOLDERS = ("server", "clients", "previous")
"""What a run writes, beside the folders of its trackers; nothing else in its directory is ever touched."""

LOCK = ".lock"

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
        self.inside = InnerPath(self.path)
        self.memories = Memories(self.inside / "clients")
        self.earlier_memories = Memories(self.inside / "previous" / "clients")
        self._weights, self._earlier_weights = self.inside / WEIGHTS, self.inside / "previous" / WEIGHTS
        self._lines = RoundLines(self.inside / ROUNDS)
        self._tally = MemoryChecksum({})
        self._is_ours: Callable[[], bool] = lambda: True

    @staticmethod
    def refuse_used(path: Path) -> None:
        """Refuse a directory that holds anything but what is left of a run that was killed before it was one."""
        directory = RunDirectory(path)
        if directory.exists():
            raise UserError(
                f"{path} holds a run already: go on with it by 'feddecorr resume {path}', look at it by "
                f"'feddecorr show {path}', or choose another --out"
            )
        if path.exists() and not path.is_dir():
            raise UserError(f"{path} is no folder: choose another --out")
        for name in directory.inside.names():
            if not _is_left_over(directory.inside / name):
                raise UserError(
                    f"{path} is not empty and holds no run, but '{name}': choose another --out, or move what is there"
                )

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
        with (self.inside / LOCK).held(f"{self.path} is being written by another process") as is_there:
            self._is_ours = is_there
            yield

    def is_held(self) -> bool:
        """Tell whether a process is at work on the run."""
        if not self.path.is_dir():
            return False
        try:
            with self.locked():
                return False
        except HeldError:
            return True
        except UserError:  # that it cannot be locked at all is said when it is to go on
            return False

    def take_up(self, federation: Federation, start: Server) -> tuple[int, Server]:
        """Return the last round that counts and the server after it; nothing is written.

        A run that exists must be this one, go on with the same data, and be whole; lines of rounds that cannot be read
        are named and stay as they are, for no bit of what follows depends on them.
        """
        if not self.exists():
            self.refuse_used(self.path)
            return 0, start
        self._refuse_strange_entries()
        self.refuse_other(federation.experiment)
        self._refuse_other_data(federation)
        number = self.finished_rounds()
        self._lines.refuse_missing(number)
        _warn_of(self._lines.read(number))
        self._tally = MemoryChecksum(self.memories.newest(number))
        if not number:
            return 0, start
        if read_mark(self._weights).memories != str(self._tally):
            raise UserError(f"{self.memories.directory} is not as it was after round {number}{COPIED}")
        return number, self._load(self._weights, number, start)

    def begin(self, federation: Federation) -> None:
        """Write down what the run is, and drop traces of rounds that do not count.

        Of a run that exists, the number of rounds and whatever else changes no bit becomes the new experiment's.
        """
        experiment = federation.experiment
        if not self.exists() or experiment.to_dict() != self.described().to_dict():
            write_json(self.inside / EXPERIMENT, experiment.to_dict())
        if not (self.inside / ENVIRONMENT).exists():
            write_json(self.inside / ENVIRONMENT, {**environment(), "together": asdict(federation.task.together)})
        if not (self.inside / FEDERATION).exists():
            about = AboutData(
                note=federation.note,
                classes=federation.task.classes,
                clients=len(federation.roster),
                data=federation.data,
                split=federation.split,
            )
            write_roster(self.inside / ROSTER, federation.roster)
            write_json(self.inside / FEDERATION, about.to_dict())
        self._lines.cut(self.finished_rounds())
        self._drop_leftovers()

    def exists(self) -> bool:
        """Tell whether there is a run."""
        return (self.inside / EXPERIMENT).exists()

    def refuse_other(self, experiment: Experiment) -> None:
        """Refuse an experiment whose results would not be those of this run."""
        if different := list(differences(self.described().identity(), experiment.identity())):
            raise UserError(
                f"{self.path} holds another run ({', '.join(different)}): choose another --out; when a run is gone on "
                "with, only rounds, engine, trackers, evaluation.every, evaluation.final and "
                "evaluation.label_measures can be changed"
            )

    def _refuse_other_data(self, federation: Federation) -> None:
        begun = self.finished_rounds() or (self.inside / FEDERATION).exists()
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
        settings = read_json(self.inside / EXPERIMENT)
        with reading(self.inside / EXPERIMENT):
            return Experiment.parse(settings, trust)

    def described(self) -> Experiment:
        """Return the resolved experiment to be looked at: nothing is imported, and what is not ours cannot be used."""
        return self.experiment(CLOSED)

    def environment(self) -> dict[str, Any] | None:
        """Return versions, commit, machine and how clients train together since it began; None if it never did."""
        file = self.inside / ENVIRONMENT
        if not file.exists():
            return None
        stored = read_json(file)
        with reading(file):
            return dict(stored)

    def federation(self) -> AboutData:
        """Return what is kept of the data."""
        file = self.inside / FEDERATION
        stored = read_json(file)
        with reading(file):
            return AboutData.parse(stored)

    def roster(self) -> Roster:
        """Return who holds how many examples and, where it is known, of which class."""
        roster, classes = read_roster(self.inside / ROSTER), len(self.federation().classes)
        if roster.labels is not None and roster.labels.classes != classes:
            raise UserError(f"{self.inside / ROSTER} counts {roster.labels.classes} classes, federation.json {classes}")
        return roster

    def finished_rounds(self) -> int:
        """Return the number of rounds that count."""
        return read_mark(self._weights).round if self._weights.exists() else 0

    def weights(self) -> State:
        """Return the newest global model."""
        return load_tensors(self._weights)

    def rounds(self) -> list[Record]:
        """Return the records of all rounds that count; lines that cannot be read are named in a warning."""
        lines = self._lines.read(self.finished_rounds())
        if lines.problems and not lines.records:
            raise UserError(lines.problems[0])
        _warn_of(lines)
        return lines.records

    def all_rounds(self) -> list[Record]:
        """Return the records of all rounds that count, for what depends on each of them."""
        return self._lines.read(self.finished_rounds()).whole

    def round(self, number: int) -> Record:
        """Return the record of a round."""
        return self._lines.read_one(number)

    def last_round(self) -> Record:
        """Return the record of the last round that counts."""
        return self.round(self.finished_rounds())

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
            (self.inside / "server").make()
            save_tensors(self._server_file(now.number), kept)
        remembering = self.memories.of_round(now.clients, now.number)
        for client in remembering:
            self._tally.note(client, now.number)
        mark = Mark(round=now.number, server=self._server_digest(now.number), memories=str(self._tally))
        if self._weights.exists():
            (self.inside / "previous").make()
            self._weights.keep_as(self._earlier_weights)
        write_weights(self._weights, {**now.server.weights, **now.server.buffers}, mark)
        self._server_file(now.number - 2).remove()
        self.memories.settle(remembering, now.number, aside=self.earlier_memories)

    def take_up_previous(self, start: Server) -> Server | None:
        """Return the server before the last round that counts; None if it was not kept."""
        number = self.finished_rounds() - 1
        if number < 1:
            return start if number == 0 else None
        file = self._earlier_weights
        return self._load(file, number, start) if file.exists() and read_mark(file).round == number else None

    def _load(self, file: InnerPath, number: int, start: Server) -> Server:
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
        weights = match_layout({name: state[name] for name in start.weights}, start.weights)
        buffers = {name: state[name] for name in start.buffers}
        return Server(weights, buffers, **sections)

    def tidy(self) -> None:
        """Remove what a process left that was killed right after the last round."""
        if list(self._old_servers()):
            with self.locked():
                self._drop_leftovers()

    def _old_servers(self) -> Iterator[InnerPath]:
        """Yield what the method kept of rounds that count no more, or that never came to count."""
        done = self.finished_rounds()
        for number in numbered(self.inside / "server"):
            if number <= done + 1 and number not in (done, done - 1):
                yield self._server_file(number)

    def _drop_leftovers(self) -> None:
        """Remove what a killed process may have left: servers of other rounds, and files that were being written."""
        for file in [*self._old_servers(), *(file for file in self._entries() if file.unfinished)]:
            file.remove()

    def _entries(self) -> Iterator[InnerPath]:
        """Yield the run's own files, and all in its own folders; whatever else is there is not looked at."""
        for name in self.inside.names():
            entry = self.inside / name
            if name in FOLDERS:
                yield from entry.tree()
            elif name in (*FILES, LOCK) or entry.unfinished in FILES:
                yield entry

    def _refuse_strange_entries(self) -> None:
        """Refuse links, special and huge files among what the run writes, before anything is written."""
        for file in self._entries():
            file.refuse_unreadable()

    def _server_digest(self, number: int) -> str:
        """Return the sha256 of what the method keeps after a round; nothing if it keeps nothing."""
        file = self._server_file(number)
        return digest_of(file) if file.exists() else ""

    def _server_file(self, number: int) -> InnerPath:
        return self.inside / "server" / f"{number}{SUFFIX}"


def _warn_of(lines: Lines) -> None:
    for problem in lines.problems:
        warnings.warn(f"{problem}; that round is left out", stacklevel=3)


def _is_left_over(file: InnerPath) -> bool:
    """Tell whether a file is one of those that come before there is a run: an empty lock, an unfinished beginning."""
    if file.name == LOCK:
        found = file.stat()
        return found is not None and found.st_size == 0
    return file.unfinished == EXPERIMENT


def differences(one: Mapping[str, Any], other: Mapping[str, Any], place: str = "") -> Iterator[str]:
    """Yield the dotted names of settings that differ."""
    for key in sorted({*one, *other}):
        mine, theirs = one.get(key), other.get(key)
        if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
            yield from differences(mine, theirs, f"{place}{key}.")
        elif mine != theirs:
            yield f"{place}{key}: {mine} there, {theirs} here"
