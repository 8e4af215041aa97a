"""The runner's end of the processes that do runs."""

from __future__ import annotations

from pathlib import Path

from feddecorr.config.experiment import Experiment
from feddecorr.core.trust import own_modules_found
from feddecorr.engines.processes import context
from feddecorr.settings.options import RunOptions
from feddecorr.sweeps.work import Ended, Failed, Order, Passed, Pause, work


class RunWorker:
    """One process that does runs; it ends with this one, however this one ends."""

    def __init__(self) -> None:
        self.connection, orders = context().Pipe()
        lifeline, self._lifeline = context().Pipe(duplex=False)
        self.process = context().Process(target=work, args=(orders, lifeline))
        with own_modules_found():
            self.process.start()
        orders.close()
        lifeline.close()
        self.memory = 0

    def order(self, experiment: Experiment, options: RunOptions, path: Path) -> None:
        """Let it do a run."""
        self.connection.send(Order(experiment, options, path))

    def pause(self) -> None:
        """Let it stop after the round that it is in."""
        self.connection.send(Pause())

    def receive(self) -> Passed | Ended | Failed:
        """Return the next answer; EOFError or OSError if the process is gone."""
        answer: Passed | Ended | Failed = self.connection.recv()
        if isinstance(answer, Passed):
            self.memory = answer.memory
        return answer

    def end(self) -> int | None:
        """End the process, whatever it is doing, and return its exit code."""
        self.connection.close()
        self._lifeline.close()
        self.process.join(timeout=5)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
        return self.process.exitcode
