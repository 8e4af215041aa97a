"""A run on disk: a directory of JSON and safetensors files that is whole at every moment."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from feddecorr.errors import UserError
from feddecorr.federation import Federation, Roster
from feddecorr.files import exclusive, load_note, load_tensors, save_tensors, write_bytes, write_json
from feddecorr.messages import Server
from feddecorr.rounds import Round
from feddecorr.runs.environment import environment
from feddecorr.runs.memories import Memories
from feddecorr.runs.precision_probe import Choice
from feddecorr.runs.record import Record
from feddecorr.runs.roster_file import read_roster, write_roster
from feddecorr.settings.experiment import Experiment
from feddecorr.states import State, lay_out

KEPT = ("shared", "memory")
"""Parts of the server, beside the model, that go to a file of their own."""

ROSTER = "roster.safetensors"
PRECISION = "precision.json"


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

    def locked(self) -> AbstractContextManager[None]:
        """Keep a second process from writing to the same run."""
        self.path.mkdir(parents=True, exist_ok=True)
        return exclusive(self.path / ".lock", f"{self.path} is being written by another process")

    def is_held(self) -> bool:
        """Tell whether a process is at work on the run."""
        if not self.path.is_dir():
            return False
        try:
            with self.locked():
                return False
        except UserError:
            return True

    def begin(self, federation: Federation) -> None:
        """Write down what the run is or, if it exists, make sure that it is this one and goes on with the same data.

        The number of rounds and whatever else changes no bit is taken from the new experiment.
        """
        experiment = federation.experiment
        if self.exists():
            self.refuse_other(experiment)
            self._refuse_other_data(federation)
        else:
            self.refuse_used(self.path)
        if not self.exists() or experiment != self.experiment():
            write_json(self.path / "experiment.json", experiment.to_dict())
        if not (self.path / "environment.json").exists():
            write_json(self.path / "environment.json", {**environment(), "together": asdict(federation.task.together)})
        if not (self.path / "federation.json").exists():
            about = {
                "note": federation.note,
                "classes": federation.task.classes,
                "clients": len(federation.roster),
                "data": federation.data,
                "split": federation.split,
            }
            write_roster(self.path / ROSTER, federation.roster)
            write_json(self.path / "federation.json", about)

    def exists(self) -> bool:
        """Tell whether there is a run."""
        return (self.path / "experiment.json").is_file()

    def refuse_other(self, experiment: Experiment) -> None:
        """Refuse an experiment whose results would not be those of this run."""
        if different := list(differences(self.experiment().identity(), experiment.identity())):
            raise UserError(
                f"{self.path} holds another run ({', '.join(different)}): choose another --out; when a run is gone on "
                "with, only rounds, engine, trackers, evaluation.every, evaluation.final and evaluation.classes can be "
                "changed"
            )

    def _refuse_other_data(self, federation: Federation) -> None:
        stored = self.federation() if (self.path / "federation.json").exists() else {}
        for part, now in (("data", federation.data), ("split", federation.split)):
            before = stored.get(part)
            if before is not None and now is not None and before != now:
                raise UserError(f"{self.path} was begun on another {part}: its sha256 was {before}, now it is {now}")

    def is_done(self, experiment: Experiment) -> bool:
        """Tell whether the directory holds this very run with as many rounds, or more."""
        return (
            self.exists()
            and self.finished_rounds() >= experiment.rounds
            and self.experiment().identity() == experiment.identity()
        )

    def experiment(self) -> Experiment:
        """Return the resolved experiment."""
        return Experiment.parse(json.loads((self.path / "experiment.json").read_text()))

    def settled(self, experiment: Experiment) -> Experiment:
        """Return the experiment, with what it leaves to a trial as that came out when the run began."""
        precision = self.experiment().training.precision if self.exists() else "auto"
        return experiment if precision == "auto" else experiment.settled(precision)

    def choose_precision(self, choice: Choice) -> None:
        """Write down what the trial found."""
        write_json(self.path / PRECISION, asdict(choice))

    def precision(self) -> Choice | None:
        """Return what was found by a trial when the run began; None if there was none."""
        file = self.path / PRECISION
        return Choice(**json.loads(file.read_text())) if file.exists() else None

    def environment(self) -> dict[str, Any] | None:
        """Return versions, commit, machine and how clients train together since it began; None if it never did."""
        file = self.path / "environment.json"
        return json.loads(file.read_text()) if file.exists() else None

    def federation(self) -> dict[str, Any]:
        """Return what is kept of the data: a note, classes, the number of clients, digests."""
        stored: dict[str, Any] = json.loads((self.path / "federation.json").read_text())
        return stored

    def roster(self) -> Roster:
        """Return who holds how many examples and, where it is known, of which class."""
        return read_roster(self.path / ROSTER)

    def finished_rounds(self) -> int:
        """Return the number of rounds that count."""
        file = self.path / "weights.safetensors"
        return int(load_note(file)["round"]) if file.exists() else 0

    def rounds(self) -> list[Record]:
        """Return the records of all rounds that count."""
        return [Record.from_dict(json.loads(line)) for line in self._lines()[: self.finished_rounds()]]

    def last_round(self) -> Record:
        """Return the record of the last round that counts."""
        return Record.from_dict(json.loads(self._lines()[self.finished_rounds() - 1]))

    def to_dict(self) -> dict[str, Any]:
        """Return all that is known of the run but its tensors, ready for JSON."""
        return {
            "directory": str(self.path),
            "experiment": self.experiment().to_dict(),
            "environment": self.environment(),
            "rounds": [record.to_dict() for record in self.rounds()],
        }

    def commit(self, now: Round, record: Record) -> None:
        """Make a round count."""
        with (self.path / "rounds.jsonl").open("ab", buffering=0) as lines:
            lines.write((json.dumps(record.to_dict(), allow_nan=False) + "\n").encode())
        kept = {
            f"{section}/{name}": tensor for section in KEPT for name, tensor in getattr(now.server, section).items()
        }
        if kept:
            (self.path / "server").mkdir(exist_ok=True)
            save_tensors(self._server_file(now.number), kept)
        weights = self.path / "weights.safetensors"
        if weights.exists():
            self.previous.mkdir(exist_ok=True)
            write_bytes(self.previous / "weights.safetensors", weights.read_bytes())
        save_tensors(weights, record.state, {"round": str(now.number)})
        self._server_file(now.number - 2).unlink(missing_ok=True)
        self.memories.settle(now.clients, now.number, aside=self.previous / "clients")

    def take_up(self, start: Server) -> tuple[int, Server]:
        """Return the last round that counts and the server after it; drop traces of any later round."""
        number = self.finished_rounds()
        lines = self._lines()[:number]
        write_bytes(self.path / "rounds.jsonl", b"".join(line + b"\n" for line in lines))
        if number == 0:
            return 0, start
        return number, self._load(self.path / "weights.safetensors", number, start)

    def take_up_previous(self, start: Server) -> Server | None:
        """Return the server before the last round that counts; None if it was not kept."""
        number = self.finished_rounds() - 1
        file = self.previous / "weights.safetensors"
        if number < 1:
            return start if number == 0 else None
        return self._load(file, number, start) if file.exists() and load_note(file)["round"] == str(number) else None

    def _load(self, file: Path, number: int, start: Server) -> Server:
        state = load_tensors(file)
        sections: dict[str, State] = {section: {} for section in KEPT}
        if self._server_file(number).exists():
            for name, tensor in load_tensors(self._server_file(number)).items():
                section, _, key = name.partition("/")
                sections[section][key] = tensor
        weights = lay_out({name: state[name] for name in start.weights}, start.weights)
        buffers = {name: state[name] for name in start.buffers}
        return Server(weights, buffers, **sections)

    def _lines(self) -> list[bytes]:
        file = self.path / "rounds.jsonl"
        return file.read_bytes().splitlines() if file.exists() else []

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
