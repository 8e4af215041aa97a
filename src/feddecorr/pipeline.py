"""The whole way on one page: data, clients, server, evaluation, record."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from feddecorr.engines.memories import Memories
from feddecorr.errors import UserError
from feddecorr.evaluate import Evaluator
from feddecorr.experiment import Experiment
from feddecorr.federation import Federation
from feddecorr.record import Record, RunDirectory
from feddecorr.rounds import federate


def run(experiment: Experiment, out: str | Path | None = None) -> Iterator[Record]:
    """Train, and yield a record per round; with `out`, keep the run in that directory, where it can be resumed."""
    return _go_on(experiment, None if out is None else RunDirectory.create(Path(out), experiment))


def resume(out: str | Path, *, experiment: Experiment | None = None) -> Iterator[Record]:
    """Go on with a run after any interruption; yields the records of the rounds that were missing.

    Another experiment may be given if it differs only in `rounds` (to go further) or in `engine`.
    """
    directory = RunDirectory.open(Path(out))
    stored = directory.experiment()
    if experiment is not None and experiment != stored:
        if stored.model_copy(update={"rounds": experiment.rounds, "engine": experiment.engine}) != experiment:
            raise UserError(f"{out}: only rounds and engine can be changed when a run is resumed")
        if experiment.rounds < directory.finished_rounds():
            raise UserError(
                f"{out}: {directory.finished_rounds()} rounds are done, more than rounds={experiment.rounds}"
            )
        directory.change(experiment)
    return _go_on(experiment or stored, directory)


def _go_on(experiment: Experiment, directory: RunDirectory | None) -> Iterator[Record]:
    with ExitStack() as stack:
        if directory:
            stack.enter_context(directory.locked())
            memories = directory.memories
        else:
            memories = Memories(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="feddecorr-"))))
        federation = Federation.of(experiment)
        server, done = federation.start(), 0
        if directory:
            directory.describe(federation)
            done, server = directory.take_up(server)
        if done >= experiment.rounds:
            return
        run_clients = stack.enter_context(experiment.engine.open(federation, memories))
        evaluate = Evaluator(federation)
        started = time.perf_counter()
        for now in federate(server, federation, run_clients, first=done + 1):
            wanted = now.number % experiment.evaluation.every == 0 or now.number == experiment.rounds
            found = evaluate(now.server) if wanted else None
            record = Record.of(now, found, time.perf_counter() - started)
            if directory:
                directory.commit(now, record)
            else:
                memories.settle(now.clients, now.number)
            started = time.perf_counter()
            yield record
