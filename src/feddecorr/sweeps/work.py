"""The process that does runs: one after another, as it is told to, until nobody is there to tell it."""

from __future__ import annotations

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
from feddecorr.engines.processes import keep_freed_memory
from feddecorr.errors import RunError, UserError
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import ensure
from feddecorr.settings.options import RunOptions
from feddecorr.sweeps.available_memory import peak_memory

ATTEMPTS = 3
"""So often is a run tried that nobody holds and that is refused all the same: another process may just have looked."""


@dataclass(frozen=True)
class Order:
    """Do this run, or what is missing of it."""

    experiment: Experiment
    options: RunOptions
    path: Path


@dataclass(frozen=True)
class Pause:
    """Stop after this round: the run is to go on otherwise."""


@dataclass(frozen=True)
class Passed:
    """A round is done, and took so many seconds; the process has used so many bytes at most."""

    round: int
    seconds: float
    memory: int


@dataclass(frozen=True)
class Ended:
    """Nothing more is done for the order: all rounds are there, or the run is paused, or another process has it."""

    held: bool = False


@dataclass(frozen=True)
class Failed:
    """The run cannot go on."""

    reason: str
    trace: str | None


def work(connection: Connection, lifeline: Connection) -> None:
    """Answer each `Order` with a `Passed` for every round, and then `Ended` or `Failed`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process decides what an interrupt means
    Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    keep_freed_memory()
    while True:
        try:
            order = connection.recv()
            if isinstance(order, Order):  # a Pause that came too late
                connection.send(carry_out(order, connection))
        except (EOFError, OSError):
            return


def _end_with(lifeline: Connection) -> None:
    """End this process at once when the main process is gone, however it went: a run is whole at every moment."""
    try:
        lifeline.recv()
    except (EOFError, OSError):
        os._exit(0)


def carry_out(order: Order, connection: Connection) -> Ended | Failed:
    """Do the run; whatever goes wrong with it is an answer, and the process goes on."""
    refusal = ""
    for _ in range(ATTEMPTS):
        try:
            with closing(ensure(order.experiment, order.options, order.path)) as records:
                for record in records:
                    connection.send(Passed(record.round, record.seconds, peak_memory()))
                    if connection.poll():
                        return Ended()
            return Ended()
        except UserError as error:
            if RunDirectory(order.path).is_held():
                return Ended(held=True)
            refusal = str(error)
            time.sleep(0.1)
        except RunError as error:
            return Failed(str(error), str(error.__cause__) if error.__cause__ else None)
        except Exception as error:  # whatever a user's own kind raises is reported, not swallowed
            return Failed(f"{type(error).__name__}: {error}", traceback.format_exc())
    return Failed(refusal, None)
