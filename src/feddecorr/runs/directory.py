"""A run on disk, as its readers see it: a directory of JSON and safetensors files that is whole at every moment."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from pydantic import PositiveInt

from feddecorr.config.experiment import Experiment
from feddecorr.core.client_memory import SUFFIX, Memories
from feddecorr.core.files import AnyPath, digest_of, load_note, load_tensors, read_json, reading, save_tensors
from feddecorr.core.messages import Server
from feddecorr.core.paths import HeldError, InnerPath
from feddecorr.core.registry import Config
from feddecorr.core.states import State, match_layout, misfits
from feddecorr.core.text import parse_json
from feddecorr.core.trust import CLOSED, Trust
from feddecorr.errors import UserError
from feddecorr.partition.heterogeneity import LabelCounts
from feddecorr.runs.record import ReadLines, Record, RoundLines
from feddecorr.server.federation import Roster
from feddecorr.settings.flat import parse_settings, to_settings
from feddecorr.settings.options import RunOptions

Parsed = TypeVar("Parsed")

ENTRIES = ("client", "label", "count")
KEY = "run"
"""The one key of the note: of several, the order in the file would be by chance, and so its bytes."""


class AboutData(Config):
    """The file `federation.json`: what a reader of results has to know, and digests of the data."""

    note: str
    classes: tuple[str, ...]
    clients: int
    data: str | None
    split: str | None


def write_roster(path: AnyPath, roster: Roster) -> None:
    """Write each client's number of examples and, where it is known, of each class."""
    arrays = {"sizes": roster.sizes.astype(np.int32)}
    note = {}
    if roster.labels is not None:
        arrays |= {name: getattr(roster.labels, name) for name in ENTRIES}
        note["classes"] = str(roster.labels.classes)
    save_tensors(path, {name: torch.from_numpy(array) for name, array in arrays.items()}, note)


def read_roster(path: AnyPath) -> Roster:
    """Return what `write_roster` wrote."""
    arrays = {name: tensor.numpy() for name, tensor in load_tensors(path).items()}
    note = load_note(path)
    with reading(path):
        sizes = arrays.pop("sizes").astype(np.int64)
        if not arrays:
            return Roster(sizes)
        labels = LabelCounts(len(sizes), int(note["classes"]), **arrays)
        for name, bound in (("client", len(sizes)), ("label", labels.classes), ("count", 2**31)):
            values = getattr(labels, name)
            if values.shape != labels.count.shape or values.ndim != 1 or values.dtype != np.int32:
                raise ValueError(f"'{name}' is {values.dtype} of shape {values.shape}")
            if len(values) and not 0 <= values.min() <= values.max() < bound:
                raise ValueError(f"'{name}' has values outside of 0 to {bound - 1}")
        return Roster(sizes, labels)


@cache
def environment() -> Mapping[str, Any]:
    """Return what this process runs in, ready for JSON."""
    packages = ("feddecorr", "torch", "numpy", "safetensors")
    return {
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
        "commit": _commit(),
        "platform": platform.platform(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
    }


def kind_of_processor() -> str:
    """Return what decides the last bits of a sum here: the architecture, its maker, the vectors that PyTorch uses."""
    try:
        maker = re.search(r"^vendor_id\s*:\s*(\S+)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:  # only Linux has it
        maker = None
    vectors = torch.backends.cpu.get_cpu_capability()
    return " ".join(filter(None, [platform.machine(), maker and maker[1], vectors]))


def _commit() -> str | None:
    """Return the commit of the source tree, with a plus sign if it was changed since; None outside of one."""
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)  # noqa: S603 - fixed words
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


class Mark(Config):
    """The round, the digest of what the method keeps, and the tally of what clients remember."""

    round: PositiveInt
    server: str
    memories: str


def write_weights(path: AnyPath, weights: State, mark: Mark) -> None:
    """Replace the file in one step."""
    save_tensors(path, weights, {KEY: mark.model_dump_json()})


def read_mark(path: AnyPath) -> Mark:
    """Return the mark of the file, without its tensors."""
    note = load_note(path)
    with reading(path):
        return Mark.parse(parse_json(note[KEY].encode()))


KEPT = ("shared", "memory")
"""Parts of the server, apart from the model, that have a file of their own."""

EXPERIMENT = "experiment.json"
ENVIRONMENT = "environment.json"
FEDERATION = "federation.json"
ROSTER = "roster.safetensors"
ROUNDS = "rounds.jsonl"
WEIGHTS = "weights.safetensors"
FILES = (EXPERIMENT, ENVIRONMENT, FEDERATION, ROSTER, ROUNDS, WEIGHTS)
FOLDERS = ("server", "clients", "previous")
"""What a run writes, apart from the folders of its trackers; nothing else in its directory is ever touched."""

LOCK = ".lock"

COPIED = ": was the directory copied while the run went on?"


class RunDirectory:
    """Reads a run on disk; `RunWriter` is the one that writes it.

    `experiment.json` holds the settings of the run: the experiment and the run options. It, `environment.json`,
    `roster.safetensors` and `federation.json` are written when the run begins. After each round its line goes to
    `rounds.jsonl`, what the method keeps to `server/ROUND.safetensors`, and then the model replaces
    `weights.safetensors`: that file's note names the round, and so the round counts from that moment on.
    What was there before that round is kept in `previous` (and the method's in `server`): from it, the clients'
    models can be trained again, bit for bit.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.inside = InnerPath(self.path)
        self.memories = Memories(self.inside / "clients")
        self.earlier_memories = Memories(self.inside / "previous" / "clients")
        self.lines = RoundLines(self.inside / ROUNDS)
        self.weights_file, self.earlier_weights_file = self.inside / WEIGHTS, self.inside / "previous" / WEIGHTS

    @classmethod
    def open(cls, path: str | Path) -> RunDirectory:
        """Return a run that exists."""
        directory = cls(path)
        if not directory.exists():
            below = sorted(file.parent for file in Path(path).glob(f"*/{EXPERIMENT}"))
            if below:
                raise UserError(f"{path} is a folder of runs: name one of them, such as {below[0]}")
            makes = "name a run's directory" if Path(path).is_file() else f"'feddecorr run … --out {path}' makes one"
            raise UserError(f"{path} holds no run (no experiment.json): {makes}")
        return directory

    def exists(self) -> bool:
        """Return whether there is a run."""
        return (self.inside / EXPERIMENT).exists()

    def is_held(self) -> bool:
        """Return whether a process is at work on the run."""
        if not self.path.is_dir():
            return False
        try:
            with (self.inside / LOCK).held():
                return False
        except HeldError:
            return True
        except UserError:  # that it cannot be locked at all is reported when it is to continue
            return False

    def is_done(self, experiment: Experiment, options: RunOptions) -> bool:
        """Return whether the directory holds this very run with as many rounds, or more."""
        return (
            self.exists()
            and self.finished_rounds() >= options.rounds
            and not options.auto_batching  # which is only known once the data are loaded
            and self.settings()[0] == experiment
        )

    def refuse_other(self, experiment: Experiment) -> None:
        """Refuse an experiment that is not this run's."""
        held, _ = self.settings()
        if held != experiment:
            different = ", ".join(differences(held.content(), experiment.content()))
            raise UserError(
                f"{self.path} holds another run ({different}): choose another --out; when a run is continued, only "
                f"its run options can change ({', '.join(RunOptions.model_fields)})"
            )

    def settings(self, trust: Trust = CLOSED) -> tuple[Experiment, RunOptions]:
        """Return the experiment and the run options; code that they name is imported only with trust in the file.

        By default nothing is imported: such parts can be compared and shown, but not used.
        """
        return read_parsed(self.inside / EXPERIMENT, lambda stored: parse_settings(stored, trust))

    def environment(self) -> dict[str, Any] | None:
        """Return versions, commit, machine and how clients are batched since it began; None if it never did."""
        file = self.inside / ENVIRONMENT
        return read_parsed(file, dict) if file.exists() else None

    def federation(self) -> AboutData:
        """Return what is kept of the data."""
        return read_parsed(self.inside / FEDERATION, AboutData.parse)

    def has_begun(self) -> bool:
        """Return whether it is known on which data the run is."""
        return bool(self.finished_rounds()) or (self.inside / FEDERATION).exists()

    def roster(self) -> Roster:
        """Return how many examples each client has and, where it is known, of which class."""
        roster, classes = read_roster(self.inside / ROSTER), len(self.federation().classes)
        if roster.labels is not None and roster.labels.classes != classes:
            raise UserError(f"{self.inside / ROSTER} counts {roster.labels.classes} classes, federation.json {classes}")
        return roster

    def finished_rounds(self) -> int:
        """Return the number of rounds that count."""
        return read_mark(self.weights_file).round if self.weights_file.exists() else 0

    def require_rounds(self) -> int:
        """Return the number of rounds that count; none is refused."""
        if not (done := self.finished_rounds()):
            raise UserError(f"{self.path} has no finished round yet: 'feddecorr resume {self.path}' continues it")
        return done

    def weights(self) -> State:
        """Return the newest global model."""
        return load_tensors(self.weights_file)

    def rounds(self) -> list[Record]:
        """Return the records of all rounds that count; lines that cannot be read are named in a warning."""
        lines = self.lines.read(self.finished_rounds())
        if lines.problems and not lines.records:
            raise UserError(lines.problems[0])
        warn_of(lines)
        return lines.records

    def all_rounds(self) -> list[Record]:
        """Return the records of all rounds that count, for what depends on each of them."""
        return self.lines.read(self.finished_rounds()).whole

    def round(self, number: int) -> Record:
        """Return the record of a round."""
        return self.lines.read_one(number)

    def last_round(self) -> Record:
        """Return the record of the last round that counts."""
        return self.round(self.finished_rounds())

    def to_dict(self) -> dict[str, Any]:
        """Return all that is known of the run but its tensors, ready for JSON."""
        return {
            "directory": str(self.path),
            "experiment": to_settings(*self.settings()),
            "environment": self.environment(),
            "rounds": [record.to_dict() for record in self.rounds()],
        }

    def load_server(self, start: Server, *, before: bool = False) -> Server | None:
        """Return the server after the last round that counts, or before it; None if that was not kept.

        `start` is the server before the first round, which says what tensors there are.
        """
        number = self.finished_rounds() - before
        if number < 1:
            return start if number == 0 else None
        file = self.earlier_weights_file if before else self.weights_file
        if before and not (file.exists() and read_mark(file).round == number):
            return None
        state = load_tensors(file)
        if problems := misfits(state, {**start.weights, **start.buffers}, types=True):
            raise UserError(f"{file} does not fit the model ({'; '.join(problems)})")
        if read_mark(file).server != self.server_digest(number):
            raise UserError(f"{self.server_file(number)} is not as it was after round {number}{COPIED}")
        sections: dict[str, State] = {section: {} for section in KEPT}
        if self.server_file(number).exists():
            kept = load_tensors(self.server_file(number))
            with reading(self.server_file(number)):
                for name, tensor in kept.items():
                    section, _, key = name.partition("/")
                    sections[section][key] = tensor
        weights = match_layout({name: state[name] for name in start.weights}, start.weights)
        buffers = {name: state[name] for name in start.buffers}
        return Server(weights, buffers, **sections)

    def server_digest(self, number: int) -> str:
        """Return the sha256 of what the method keeps after a round; nothing if it keeps nothing."""
        file = self.server_file(number)
        return digest_of(file) if file.exists() else ""

    def server_file(self, number: int) -> InnerPath:
        """Return where the method keeps its state after a round."""
        return self.inside / "server" / f"{number}{SUFFIX}"


def read_parsed(file: InnerPath, parse: Callable[[Any], Parsed]) -> Parsed:
    """Parse a JSON file; errors name the file."""
    stored = read_json(file)
    with reading(file):
        return parse(stored)


def warn_of(lines: ReadLines) -> None:
    """Warn of lines that cannot be read."""
    for problem in lines.problems:
        warnings.warn(f"{problem}; that round is left out", stacklevel=3)


def differences(one: Mapping[str, Any], other: Mapping[str, Any], place: str = "") -> Iterator[str]:
    """Yield the dotted names of settings that differ."""
    for key in sorted({*one, *other}):
        mine, theirs = one.get(key), other.get(key)
        if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
            yield from differences(mine, theirs, f"{place}{key}.")
        elif mine != theirs:
            yield f"{place}{key}: {mine} there, {theirs} here"
