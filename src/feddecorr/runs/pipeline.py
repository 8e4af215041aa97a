"""The whole way on one page: data, clients, server, evaluation, record."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from feddecorr.errors import UserError
from feddecorr.federation import Federation
from feddecorr.rounds import federate
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.evaluation import Evaluator, LocalModels
from feddecorr.runs.memories import Memories
from feddecorr.runs.record import Record
from feddecorr.settings.experiment import Experiment


def run(experiment: Experiment, out: str | Path | None = None) -> Iterator[Record]:
    """Train, and yield a record per round; with `out`, keep the run in that directory, where it can be resumed."""
    if out is None:
        return _go_on(experiment, lambda: None)
    path = Path(out)
    RunDirectory.refuse_used(path)
    return _go_on(experiment, lambda: RunDirectory.create(path, experiment))


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
    return _go_on(experiment or stored, lambda: directory)


def _go_on(experiment: Experiment, keep: Callable[[], RunDirectory | None]) -> Iterator[Record]:
    federation = Federation.of(experiment)  # whatever is wrong with data or split comes up before there is a run
    directory = keep()
    with ExitStack() as stack:
        if directory:
            stack.enter_context(directory.locked())
            memories = directory.memories
        else:
            memories = Memories(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="feddecorr-"))))
        server, done = federation.start(), 0
        if directory:
            directory.describe(federation)
            done, server = directory.take_up(server)
        if done >= experiment.rounds:
            return
        run_clients = stack.enter_context(experiment.engine.open(federation, memories))
        evaluate = Evaluator(federation)
        local = LocalModels(evaluate)
        started = time.perf_counter()
        for now in federate(server, federation, local.watch(run_clients), first=done + 1):
            found = evaluate(now.server) if local.is_due(now.number) else None
            record = Record.of(now, found, time.perf_counter() - started, local.found)
            if directory:
                directory.commit(now, record)
            else:
                memories.settle(now.clients, now.number)
            yield record
            started = time.perf_counter()
