"""The whole way on one page: data, clients, server, evaluation, record."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from feddecorr.config.experiment import Experiment
from feddecorr.core.temporary import temporary_folder
from feddecorr.core.trust import Trust
from feddecorr.engines.processes import end_unguarded_worker
from feddecorr.errors import RunError, UserError, explain_refusal
from feddecorr.runs.directory import RunDirectory, differences
from feddecorr.runs.estimate import round_flops
from feddecorr.runs.evaluation import Evaluations
from feddecorr.runs.record import Record
from feddecorr.runs.tracking import following
from feddecorr.runs.writer import RunWriter, refuse_used, tidy
from feddecorr.server.federation import Connection, Evaluating, Federation, Simulation
from feddecorr.server.rounds import federate
from feddecorr.settings.options import RunOptions

Records = Generator[Record, None, None]
"""The rounds of a run as they are done; closing it ends the run there, and what is done is kept."""

Clients = Connection | Simulation
"""Clients anywhere: behind a live connection, or simulated on this machine."""


def run(
    experiment: Experiment,
    options: RunOptions | None = None,
    out: str | Path | None = None,
    *,
    through: Clients | None = None,
) -> Records:
    """Train, and yield a record per round; with `out`, keep the run in that directory, where it can be resumed.

    Clients are those of a live connection, if one is given, and else simulated on this machine.
    """
    if out is not None:
        refuse_used(Path(out))
    options = options or RunOptions()
    return _continue(experiment.on(options.device), options, None if out is None else Path(out), through)


def resume(
    out: str | Path,
    experiment: Experiment | None = None,
    options: RunOptions | None = None,
    *,
    through: Clients | None = None,
    trust: bool = False,
) -> Records:
    """Continue a run after any interruption; yields the records of the rounds that were missing.

    Other options may be given, such as more rounds or another engine; an experiment only if it equals the run's.
    Code that is not this package's and that only the run's own file names is imported with `trust` alone.
    """
    directory = RunDirectory.open(out)
    if experiment is None or options is None:
        held = directory.settings(Trust(files=trust))
        experiment, options = experiment or held[0], options or held[1]
    experiment = experiment.on(options.device)
    if not options.auto_batching:
        directory.refuse_other(experiment)
    if options.rounds < directory.finished_rounds():
        raise UserError(f"{out}: {directory.finished_rounds()} rounds are done, more than rounds={options.rounds}")
    return _continue(experiment, options, directory.path, through)


def ensure(
    experiment: Experiment, options: RunOptions | None, out: str | Path, *, through: Clients | None = None
) -> Records:
    """Run the experiment in that directory, continue it there, or find it done.

    Yields the records of the rounds that were missing. A directory that holds another run, or other files, is refused.
    """
    if not RunDirectory(out).exists():
        refuse_used(Path(out))
    options = options or RunOptions()
    return _continue(experiment.on(options.device), options, Path(out), through)


def _continue(experiment: Experiment, options: RunOptions, path: Path | None, through: Clients | None) -> Records:
    end_unguarded_worker()
    if path is None and options.trackers:
        raise UserError("trackers read what a run keeps: give it a directory (out=…)")
    if path is not None and RunDirectory(path).is_done(experiment, options):
        tidy(path)
        return
    # What is wrong with the data or the network is reported before there is a run.
    clients = _reach(experiment, options, through)
    federation, batching = _resolve(clients, options)
    experiment = federation.experiment
    start, names = federation.begin()
    for transform in experiment.transforms.values():
        transform.check_server(start, experiment.method.expected_extra(start, federation.info(options.rounds)))
    with ExitStack() as stack:
        writer = stack.enter_context(RunWriter(path or stack.enter_context(temporary_folder())))
        run = writer.directory
        done, server = writer.take_up(federation, start)
        writer.begin(federation, options, batching)
        if done >= options.rounds:
            return
        if isinstance(clients, Simulation):
            opened = options.engine.open(federation.task, clients.shards, run.memories)
        else:
            opened = clients.open(run.memories)
        run_clients = stack.enter_context(opened)
        track = stack.enter_context(following(run, options.trackers, experiment, options))
        evaluations = Evaluations(federation, options, clients if isinstance(clients, Evaluating) else None)
        started = time.perf_counter()
        numbers = range(done + 1, options.rounds + 1)
        rounds = federate(server, federation, run_clients, rounds=numbers, watch=[evaluations.watch])
        del start, server  # so that the first model does not stay in memory
        for now in rounds:
            record = Record.of(now, evaluations.after(now), time.perf_counter() - started, names)
            if options.evaluation.flops and now.number == options.rounds and isinstance(clients, Simulation):
                record = replace(record, flops=round_flops(experiment, options, clients.dataset.outline))
            try:
                writer.commit(now, record)
            except OSError as error:
                raise RunError(f"round {now.number} cannot be kept: {explain_refusal(error)}") from error
            track(record)
            yield record
            started = time.perf_counter()


def simulate(experiment: Experiment, options: RunOptions) -> Simulation:
    """Return the clients of an experiment, simulated on this machine."""
    options.engine.check()
    return Simulation(experiment, device=options.device, evaluation=options.evaluation)


def _reach(experiment: Experiment, options: RunOptions, through: Clients | None) -> Clients:
    """Return the clients: those of a connection for this very experiment, or simulated ones."""
    if through is None:
        return simulate(experiment, options)
    if different := list(differences(through.federation.experiment.content(), experiment.content())):
        raise UserError(f"the connection is for another experiment ({', '.join(different)}): give both the same")
    return through


def _resolve(clients: Clients, options: RunOptions) -> tuple[Federation, str]:
    """Return the federation with its network, and a number in place of auto; and why that is 1, where it is."""
    task, batching = clients.federation.task.built(), ""
    if options.auto_batching:
        task, batching = task.choose_batching()
    apart = not isinstance(clients, Simulation) or not options.engine.batches_clients
    if task.together.clients > 1 and apart:
        raise UserError(
            f"training.clients_per_batch={task.together.clients}: clients of a live connection or on "
            "Flower train one by one, each where it is; say training.clients_per_batch=1"
        )
    return replace(clients.federation, task=task), batching
