"""The one process that writes a run: it holds the lock, and the directory is whole at every moment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from feddecorr.core.client_memory import MemoryChecksum, numbered
from feddecorr.core.devices import describe
from feddecorr.core.files import read_json, save_tensors, write_json
from feddecorr.core.messages import Server
from feddecorr.core.paths import InnerPath
from feddecorr.errors import RunError, UserError
from feddecorr.runs.directory import (
    COPIED,
    ENVIRONMENT,
    EXPERIMENT,
    FEDERATION,
    FILES,
    FOLDERS,
    KEPT,
    LOCK,
    ROSTER,
    AboutData,
    Mark,
    RunDirectory,
    environment,
    kind_of_processor,
    read_mark,
    warn_of,
    write_roster,
    write_weights,
)
from feddecorr.runs.record import Record
from feddecorr.server.federation import Federation
from feddecorr.server.rounds import Round
from feddecorr.settings.flat import to_settings
from feddecorr.settings.options import RunOptions

WRITTEN = re.compile("|".join([r"\d+\.safetensors", r"(run|keys)\.json", *map(re.escape, FILES)]))
"""The names of all files that are written in a run's directory and in its own folders."""


class RunWriter:
    """Writes a run while it holds its lock: `with RunWriter(path) as writer`."""

    def __init__(self, path: Path) -> None:
        self.directory = RunDirectory(path)
        self._inside = self.directory.inside
        self._tally = MemoryChecksum({})
        self._lock = ExitStack()

    def __enter__(self) -> Self:
        self.directory.path.mkdir(parents=True, exist_ok=True)
        refusal = f"{self.directory.path} is being written by another process"
        self._is_ours = self._lock.enter_context((self._inside / LOCK).held(refusal))
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def take_up(self, federation: Federation, start: Server) -> tuple[int, Server]:
        """Return the last round that counts and the server after it; nothing is written.

        A run that exists must be this one, continue on the same data, and be whole; lines of rounds that cannot be
        read are named and stay as they are, for no bit of what follows depends on them.
        """
        run = self.directory
        if not run.exists():
            refuse_used(run.path)
            return 0, start
        for file in self._entries():  # links, special and huge files, before anything is written
            file.refuse_unreadable()
        run.refuse_other(federation.experiment)
        self._refuse_other_data(federation)
        number = run.finished_rounds()
        run.lines.refuse_missing(number)
        warn_of(run.lines.read(number))
        self._tally = MemoryChecksum(run.memories.newest(number))
        if number and read_mark(run.weights_file).memories != str(self._tally):
            raise UserError(f"{run.memories.directory} is not as it was after round {number}{COPIED}")
        return number, run.load_server(start) or start

    def begin(self, federation: Federation, options: RunOptions, batching: str = "") -> None:
        """Write down what the run is, and drop traces of rounds that do not count.

        The options of a run that exists become these. `batching` is the reason why clients train one by one, where
        they could have been batched.
        """
        resolved = options.model_copy(update={"auto_batching": False})
        settings = to_settings(federation.experiment, resolved)
        if not self.directory.exists() or settings != read_json(self._inside / EXPERIMENT):
            write_json(self._inside / EXPERIMENT, settings)
        if not (self._inside / ENVIRONMENT).exists():
            together = federation.task.together
            batched = {"clients": together.clients, "because": batching, "pre_aggregate": together.merge}
            device = describe(options.device, deterministic=federation.experiment.training.deterministic)
            about = {**environment(), **device, "batching": batched}
            write_json(self._inside / ENVIRONMENT, {**about, "processors": [kind_of_processor()]})
        self._note_processor()
        if not (self._inside / FEDERATION).exists():
            of_data = AboutData(
                note=federation.note,
                classes=federation.task.classes,
                clients=len(federation.roster),
                data=federation.data,
                split=federation.split,
            )
            write_roster(self._inside / ROSTER, federation.roster)
            write_json(self._inside / FEDERATION, of_data.to_dict())
        self.directory.lines.cut(self.directory.finished_rounds())
        self.drop_leftovers()

    def _note_processor(self) -> None:
        """Write down the kind of processor, if none of its kind has worked on the run before."""
        known = self.directory.environment() or {}
        kinds = known.get("processors")
        kinds = kinds if isinstance(kinds, list) else []
        if (mine := kind_of_processor()) not in kinds:
            write_json(self._inside / ENVIRONMENT, {**known, "processors": [*kinds, mine]})

    def commit(self, now: Round, record: Record) -> None:
        """Make a round count."""
        run = self.directory
        if not self._is_ours():
            raise RunError(f"{run.path} was removed or replaced during the run: its rounds are lost")
        run.lines.append(record)
        kept = {
            f"{section}/{name}": tensor for section in KEPT for name, tensor in getattr(now.server, section).items()
        }
        if kept:
            (self._inside / "server").make()
            save_tensors(run.server_file(now.number), kept)
        remembering = run.memories.of_round(now.clients, now.number)
        for client in remembering:
            self._tally.note(client, now.number)
        mark = Mark(round=now.number, server=run.server_digest(now.number), memories=str(self._tally))
        if run.weights_file.exists():
            (self._inside / "previous").make()
            run.weights_file.keep_as(run.earlier_weights_file)
        write_weights(run.weights_file, {**now.server.weights, **now.server.buffers}, mark)
        run.server_file(now.number - 2).remove()
        run.memories.settle(remembering, now.number, aside=run.earlier_memories)

    def drop_leftovers(self) -> None:
        """Remove what a killed process may have left: servers of other rounds, and files that were being written."""
        unfinished = (file for file in self._entries() if WRITTEN.fullmatch(file.unfinished or ""))
        for file in [*old_servers(self.directory), *unfinished]:
            file.remove()

    def _refuse_other_data(self, federation: Federation) -> None:
        if not self.directory.has_begun():
            return
        for part, now in (("data", federation.data), ("split", federation.split)):
            before = getattr(self.directory.federation(), part)
            if before is not None and now is not None and before != now:
                raise UserError(
                    f"{self.directory.path} was begun on another {part}: its sha256 was {before}, now it is {now}"
                )

    def _entries(self) -> Iterator[InnerPath]:
        """Yield the run's own files, and all in its own folders; nothing else."""
        for name in self._inside.names():
            entry = self._inside / name
            if name in FOLDERS:
                yield from entry.tree()
            elif name in (*FILES, LOCK) or entry.unfinished in FILES:
                yield entry


def refuse_used(path: Path) -> None:
    """Refuse a directory that holds anything but what is left of a run that was killed before it was one."""
    directory = RunDirectory(path)
    if directory.exists():
        raise UserError(
            f"{path} holds a run already: continue it by 'feddecorr resume {path}', look at it by "
            f"'feddecorr show {path}', or choose another --out"
        )
    if path.exists() and not path.is_dir():
        raise UserError(f"{path} is not a folder: choose another --out")
    for name in directory.inside.names():
        if not _is_left_over(directory.inside / name):
            raise UserError(
                f"{path} is not empty and holds no run, but '{name}': choose another --out, or move what is there"
            )


def tidy(path: Path) -> None:
    """Remove what a process left that was killed right after the last round."""
    if list(old_servers(RunDirectory(path))):
        with RunWriter(path) as writer:
            writer.drop_leftovers()


def old_servers(run: RunDirectory) -> Iterator[InnerPath]:
    """Yield what the method kept of rounds that count no more, or that never came to count."""
    done = run.finished_rounds()
    for number in numbered(run.inside / "server"):
        if number <= done + 1 and number not in (done, done - 1):
            yield run.server_file(number)


def _is_left_over(file: InnerPath) -> bool:
    """Return whether a file is one of those that precede a run: an empty lock, an unfinished beginning."""
    if file.name == LOCK:
        found = file.stat()
        return found is not None and found.st_size == 0
    return file.unfinished == EXPERIMENT
