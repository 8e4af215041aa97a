"""Processes that do runs one after another, as the runner tells them to."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import traceback
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread

from feddecorr.config.experiment import Experiment
from feddecorr.core.trust import own_modules_found
from feddecorr.engines.processes import context, keep_freed_memory
from feddecorr.errors import RunError, UserError
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import ensure
from feddecorr.settings.options import RunOptions
from feddecorr.sweeps.status import peak_memory

ATTEMPTS = 3
"""How often to try a run that is refused although nobody holds it: another process may just have looked at it."""


@dataclass(frozen=True)
class Passed:
    """A round is done; the process has used so many bytes at most."""

    round: int
    memory: int


@dataclass(frozen=True)
class Ended:
    """The worker is free again: the run is complete, or paused, or held by another process."""

    held: bool = False


@dataclass(frozen=True)
class Failed:
    """The run cannot continue."""

    reason: str
    trace: str | None


class RunWorker:
    """The runner's end of a process that does runs; the process ends with the runner's, even if that is killed."""

    def __init__(self) -> None:
        self.connection, theirs = context().Pipe()
        self.process = context().Process(target=work, args=(theirs,))
        with own_modules_found():
            self.process.start()
        theirs.close()
        self.memory = 0

    def start(self, experiment: Experiment, options: RunOptions, path: Path) -> None:
        """Let it do a run, or what is missing of it."""
        self.connection.send((experiment, options, path))

    def pause(self) -> None:
        """Let it stop after the current round."""
        self.connection.send(None)

    def receive(self) -> Passed | Ended | Failed:
        """Return the next answer; EOFError or OSError if the process is gone."""
        answer: Passed | Ended | Failed = self.connection.recv()
        if isinstance(answer, Passed):
            self.memory = answer.memory
        return answer

    def end(self) -> None:
        """End the process, whatever it is doing: a run can be resumed from any moment."""
        self.connection.close()
        self.process.kill()
        self.process.join()


def work(connection: Connection) -> None:
    """Do the runs that come; answer each with a `Passed` for every round, and then `Ended` or `Failed`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process handles interrupts
    Thread(target=_end_with_parent, daemon=True).start()
    keep_freed_memory()
    while True:
        try:
            order = connection.recv()
            if order is not None:  # a pause that came too late
                connection.send(_do_run(connection, *order))
        except (EOFError, OSError):
            return


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(0)


def _do_run(connection: Connection, experiment: Experiment, options: RunOptions, path: Path) -> Ended | Failed:
    """Do the run; whatever goes wrong with it is an answer, and the process goes on."""
    refusal = ""
    for _ in range(ATTEMPTS):
        try:
            with closing(ensure(experiment, options, path)) as records:
                for record in records:
                    connection.send(Passed(record.round, peak_memory()))
                    if connection.poll():
                        return Ended()
            return Ended()
        except UserError as error:
            if RunDirectory(path).is_held():
                return Ended(held=True)
            refusal = str(error)
            time.sleep(0.1)
        except RunError as error:
            return Failed(str(error), str(error.__cause__) if error.__cause__ else None)
        except Exception as error:  # whatever a user's own class raises is reported, not swallowed
            return Failed(f"{type(error).__name__}: {error}", traceback.format_exc())
    return Failed(refusal, None)
