"""The whole way on one page: data, clients, server, evaluation, record."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

from feddecorr.config.experiment import Experiment
from feddecorr.core.temporary import temporary_folder
from feddecorr.core.trust import Trust
from feddecorr.engines.allocator import keep_freed_memory
from feddecorr.errors import RunError, UserError, explain_refusal
from feddecorr.runs.directory import RunDirectory, differences
from feddecorr.runs.eval_schedule import Evaluations
from feddecorr.runs.record import Record
from feddecorr.runs.tracking import following
from feddecorr.server.federation import Connection, Evaluating, Federation, Simulation
from feddecorr.server.rounds import federate

Records = Generator[Record, None, None]
"""The rounds of a run as they are done; closing it ends the run there, and what is done is kept."""


def run(experiment: Experiment, out: str | Path | None = None, *, through: Connection | None = None) -> Records:
    """Train, and yield a record per round; with `out`, keep the run in that directory, where it can be resumed.

    Clients are those of a live connection, if one is given, and else simulated on this machine.
    """
    if out is not None:
        RunDirectory.refuse_used(Path(out))
    return _go_on(experiment, None if out is None else Path(out), through)


def resume(
    out: str | Path,
    *,
    experiment: Experiment | None = None,
    through: Connection | None = None,
    trust: bool = False,
) -> Records:
    """Go on with a run after any interruption; yields the records of the rounds that were missing.

    Another experiment may be given if it differs only in what changes no bit: `rounds` (to go further), `engine`,
    `trackers`, `evaluation.every`, `evaluation.final` and `evaluation.label_measures`. Code that is not this package's
    and that only the run's own file names is imported with `trust` alone.
    """
    directory = RunDirectory.open(out)
    if experiment is not None:
        directory.refuse_other(experiment)
        if experiment.rounds < directory.finished_rounds():
            raise UserError(
                f"{out}: {directory.finished_rounds()} rounds are done, more than rounds={experiment.rounds}"
            )
    return _go_on(experiment or directory.experiment(Trust(files=trust)), directory.path, through)


def ensure(experiment: Experiment, out: str | Path, *, through: Connection | None = None) -> Records:
    """Run the experiment in that directory, go on with it there, or find it done.

    Yields the records of the rounds that were missing. A directory that holds another run, or other files, is refused.
    """
    if not RunDirectory(out).exists():
        RunDirectory.refuse_used(Path(out))
    return _go_on(experiment, Path(out), through)


def _refuse_misfits(experiment: Experiment, federation: Federation, *, live: bool) -> None:
    """Refuse a connection for something else, and clients together who live apart."""
    if live and (different := list(differences(federation.experiment.to_dict(), experiment.to_dict()))):
        raise UserError(f"the connection is for another experiment ({', '.join(different)}): give both the same")
    if federation.task.together.clients > 1 and (live or not experiment.engine.batches_clients):
        raise UserError(
            f"training.clients_per_batch={experiment.training.clients_per_batch}: clients of a live connection or on "
            "Flower train one by one, each where it is; say training.clients_per_batch=1"
        )


def _go_on(experiment: Experiment, path: Path | None, through: Connection | None) -> Records:
    if path is not None:
        if RunDirectory(path).is_done(experiment):
            RunDirectory(path).tidy()
            return
    elif experiment.trackers:
        raise UserError("trackers read what a run keeps: give it a directory (out=…)")
    if through is None:
        experiment.engine.check()
    connection = through or Simulation(experiment)  # what is wrong with data comes up before there is a run
    federation = connection.federation
    _refuse_misfits(experiment, federation, live=through is not None)
    start, names = federation.begin()  # what is wrong with the network comes up before there is a run, too
    for transform in experiment.transforms.values():
        transform.check_server(start, experiment.method.expected_extra(start))
    with ExitStack() as stack:
        directory = RunDirectory(path or stack.enter_context(temporary_folder()))
        stack.enter_context(directory.locked())
        done, server = directory.take_up(federation, start)
        directory.begin(federation)
        if done >= experiment.rounds:
            return
        keep_freed_memory()
        run_clients = stack.enter_context(connection.open(directory.memories))
        track = stack.enter_context(following(directory, experiment.trackers))
        evaluations = Evaluations(federation, connection if isinstance(connection, Evaluating) else None)
        started = time.perf_counter()
        for now in federate(server, federation, run_clients, first=done + 1, watch=[evaluations.watch]):
            record = Record.of(now, evaluations.after(now), time.perf_counter() - started, names)
            try:
                directory.commit(now, record)
            except OSError as error:
                raise RunError(f"round {now.number} cannot be kept: {explain_refusal(error)}") from error
            track(record)
            yield record
            started = time.perf_counter()
