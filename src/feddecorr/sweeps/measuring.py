"""Measures what runs cost while the first of them are being done, so that the time left is right early."""

from __future__ import annotations

import math
import signal
from collections.abc import Sequence
from multiprocessing.connection import Connection

from feddecorr.config.experiment import Experiment
from feddecorr.engines.processes import context
from feddecorr.errors import UserError
from feddecorr.sweeps.costs import Costs, kind, sizes
from feddecorr.sweeps.probing import measure

SECONDS = 5.0
STEPS = 50
"""Local steps that measuring one kind of run takes, at most."""

SHARE = 0.01
"""A study is only measured if that is not more of its steps than this."""


class Measuring:
    """A process that measures, if it is worth it: with one kind of run, or few steps, the runs themselves tell."""

    def __init__(self, experiments: Sequence[Experiment]) -> None:
        kinds = {kind(experiment): experiment for experiment in experiments}
        self.connections: list[Connection] = []
        if len(kinds) < 2 or STEPS * len(kinds) > SHARE * sum(map(_steps, experiments)):
            return
        connection, theirs = context().Pipe(duplex=False)
        self._process = context().Process(target=_measure, args=(theirs, list(kinds.values())), daemon=True)
        self._process.start()
        theirs.close()
        self.connections.append(connection)

    def receive(self) -> Costs | None:
        """Return what was measured; nothing if the process is gone."""
        (connection,) = self.connections
        try:
            return Costs(connection.recv())
        except (EOFError, OSError):
            return None
        finally:
            self.end()

    def end(self) -> None:
        """End the process."""
        for connection in self.connections:
            connection.close()
            self._process.kill()
            self._process.join()
        self.connections.clear()


def _steps(experiment: Experiment) -> float:
    try:
        train, _ = sizes(experiment.data)
    except UserError:
        return 0.0
    training = experiment.training
    clients = experiment.clients * experiment.participation
    steps = training.steps or training.epochs * math.ceil(train / experiment.clients / training.batch)
    return experiment.rounds * clients * steps


def _measure(connection: Connection, experiments: Sequence[Experiment]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process decides what an interrupt means
    connection.send(measure(experiments, SECONDS).copy())
