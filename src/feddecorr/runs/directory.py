"""What is kept of a run: a directory of JSON and safetensors files that is whole at every moment."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from feddecorr.errors import UserError
from feddecorr.federation import Federation
from feddecorr.files import load_note, load_tensors, save_tensors, write_bytes, write_json
from feddecorr.messages import Server
from feddecorr.rounds import Round
from feddecorr.runs.memories import Memories
from feddecorr.runs.record import Record
from feddecorr.settings.experiment import Experiment
from feddecorr.states import State

KEPT = ("shared", "memory")
"""Parts of the server, beside the model, that go to a file of their own."""


class RunDirectory:
    """A run on disk.

    `experiment.json`, `environment.json` and `federation.json` are written once. After each round its line goes
    to `rounds.jsonl`, what the method keeps to `server/ROUND.safetensors`, and then the model replaces
    `weights.safetensors`: that file's note names the round, and so the round counts from that moment on.
    What was there before that round is kept in `previous` (and the method's in `server`): from it, the clients'
    models can be trained again, bit for bit.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.previous = path / "previous"
        self.memories = Memories(path / "clients")

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
    def create(cls, path: Path, experiment: Experiment) -> RunDirectory:
        """Begin a new run."""
        cls.refuse_used(path)
        path.mkdir(parents=True, exist_ok=True)
        write_json(path / "experiment.json", experiment.to_dict())
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """Take up a run that exists."""
        if not (path / "experiment.json").is_file():
            raise UserError(f"{path} holds no run (no experiment.json): 'feddecorr run … --out {path}' makes one")
        return cls(path)

    def experiment(self) -> Experiment:
        """Return the resolved experiment."""
        return Experiment.parse(json.loads((self.path / "experiment.json").read_text()))

    def change(self, experiment: Experiment) -> None:
        """Replace the experiment, where only the number of rounds or the engine differs."""
        write_json(self.path / "experiment.json", experiment.to_dict())

    def describe(self, federation: Federation) -> None:
        """Keep who holds how many examples of which class, and where the run began."""
        if not (self.path / "environment.json").exists():
            write_json(self.path / "environment.json", environment())
        labels = federation.dataset.train.labels.numpy()
        size = len(federation.dataset.classes)
        counts = [np.bincount(labels[part], minlength=size).tolist() for part in federation.parts]
        content = {"note": federation.dataset.note, "classes": federation.dataset.classes, "counts": counts}
        write_json(self.path / "federation.json", content)

    def environment(self) -> dict[str, Any] | None:
        """Return versions, commit and machine on which the run began; None if it never did."""
        file = self.path / "environment.json"
        return json.loads(file.read_text()) if file.exists() else None

    def federation(self) -> dict[str, Any]:
        """Return the classes, for each client the number of examples of each, and a note on the data."""
        stored: dict[str, Any] = json.loads((self.path / "federation.json").read_text())
        return stored

    def finished_rounds(self) -> int:
        """Return the number of rounds that count."""
        file = self.path / "weights.safetensors"
        return int(load_note(file)["round"]) if file.exists() else 0

    def rounds(self) -> list[Record]:
        """Return the records of all rounds that count, without their models' states."""
        return [Record.from_dict(json.loads(line)) for line in self._lines()[: self.finished_rounds()]]

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
        weights = {name: state[name] for name in start.weights}
        buffers = {name: state[name] for name in start.buffers}
        return Server(weights, buffers, **sections)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep a second process from writing to the same run."""
        with (self.path / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise UserError(f"{self.path} is being written by another process") from error
            yield

    def _lines(self) -> list[bytes]:
        file = self.path / "rounds.jsonl"
        return file.read_bytes().splitlines() if file.exists() else []

    def _server_file(self, number: int) -> Path:
        return self.path / "server" / f"{number}.safetensors"


def environment() -> dict[str, Any]:
    """Return what else could matter for a run's last bits: versions, the source's commit, the machine."""
    packages = ("feddecorr", "torch", "numpy", "safetensors")
    return {
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
        "commit": _commit(),
        "platform": platform.platform(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
    }


def _commit() -> str | None:
    """Return the commit of the source tree, with a plus sign if it was changed since; None outside of one."""
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)  # noqa: S603 - fixed words
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
