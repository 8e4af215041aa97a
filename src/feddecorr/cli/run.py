"""Commands that train: run, resume and demo."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from feddecorr.cli.console import (
    JsonOption,
    TrustOption,
    Words,
    number,
    percent,
    print_json,
    print_table,
    print_text,
    say,
)
from feddecorr.cli.progress import duration, follow
from feddecorr.config.overrides import read_overrides, said
from feddecorr.core.trust import Trust
from feddecorr.errors import RunError

if TYPE_CHECKING:
    from feddecorr.config.experiment import Experiment
    from feddecorr.runs.record import Record
    from feddecorr.server.federation import Simulation
    from feddecorr.settings.options import RunOptions


def run(
    words: Words = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Directory of the run; by default, a new one in runs/.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what there is to do and how long it takes; keep nothing.")
    ] = False,
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    r"""Train a federation and record the run in a directory.

    A bare name chooses a kind, dotted keys set its options ('feddecorr list' shows them all):

        feddecorr run data=digits clients=10 partition=dirichlet \
            partition.alpha=0.05 model=convnet regularizers=feddecorr \
            regularizers.feddecorr.beta=0.1 rounds=20 engine=pool --out runs/a

    Rounds, engine, device, evaluation and trackers only say how to run it ('feddecorr list options'). Everything
    else defines the experiment: equal experiments give the same model, bit for bit.

    Settings from a file, and how long it will take:

        feddecorr run experiment.toml seed=1 --out runs/b
        feddecorr run experiment.toml --dry-run
    """
    experiment, options = _parse(words or [], Trust(said(words or []), files=trust))
    if dry_run:
        _estimate(experiment, options, json=json)
        return
    from feddecorr.runs.pipeline import run as pipeline_run
    from feddecorr.runs.pipeline import simulate
    from feddecorr.runs.writer import refuse_used

    out = out or Path("runs") / f"{experiment.label()}-{experiment.digest()[:16]}"
    refuse_used(out)
    simulation = simulate(experiment, options)
    records = pipeline_run(simulation.task.experiment, options, out, through=simulation)
    complete(records, out, title=out.name, done=0, rounds=options.rounds, simulation=simulation)
    print_outcome(out, json=json)


def _estimate(experiment: Experiment, options: RunOptions, *, json: bool) -> None:
    """Train a few steps, and say how many there are, and how much memory and time they take."""
    from feddecorr.runs.estimate import Work, measure_image, processes
    from feddecorr.runs.pipeline import simulate
    from feddecorr.sweeps.status import peak_memory

    simulation = simulate(experiment, options)
    experiment = simulation.task.experiment
    work = Work.of(experiment, options, simulation.dataset.outline)
    say("training a few steps …")
    image, count = measure_image(simulation), processes(experiment, options)
    seconds, memory = work.seconds_by(image, count), peak_memory()
    if json:
        measured = {"seconds_per_image": image, "processes": count, "seconds": seconds, "memory_per_process": memory}
        print_json({**asdict(work), **measured})
        return
    for line in work.describe():
        print_text(line)
    if memory:
        of_each = f" in each of {count + 1} processes" if count > 1 else ""
        print_text(f"memory: about {memory / 1e9:.1f} GB{of_each}")
    at_a_time = f", {count} at a time" if count > 1 else ""
    per_image = f"{1000 * image:.2g} ms for an image of training{at_a_time}"
    print_text(f"time: about {duration(seconds)} ({per_image}, measured just now on {options.device})")
    say("on another device: 'feddecorr plan' with the same settings and --device")


def resume(
    directory: Annotated[Path, typer.Argument(help="Directory of the run.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[rounds=N] [engine=NAME]", help="More rounds, another engine, or other run options."),
    ] = None,
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    """Resume a run after any interruption; the result is that of a run that never stopped.

        feddecorr resume runs/a
        feddecorr resume runs/a rounds=50

    If the run uses code of your own, name it again:

        feddecorr resume runs/a method=my_module:Mine
    """
    from feddecorr.runs.directory import RunDirectory
    from feddecorr.runs.pipeline import resume as pipeline_resume
    from feddecorr.runs.pipeline import simulate
    from feddecorr.settings.flat import parse_settings, to_settings
    from feddecorr.settings.short_keys import read_settings

    run = RunDirectory.open(directory)
    trusted = Trust(said(words or []), files=trust)
    settings = read_settings(words or [], to_settings(*run.settings()), trusted)
    experiment, options = parse_settings(settings, trusted)
    done = run.finished_rounds()
    if done == options.rounds:
        say(f"{directory} already has all its {done} rounds")
    simulation = simulate(experiment, options) if done < options.rounds else None
    records = pipeline_resume(directory, experiment, options, through=simulation)
    complete(records, directory, title=directory.name, done=done, rounds=options.rounds, simulation=simulation)
    print_outcome(directory, json=json)


DEMO_SETTINGS: dict[str, Any] = {
    "data": "rotated_digits",
    "training": {"epochs": 3},
    "rounds": 8,
    "engine": "pool",
}
DEMO_RUNS: dict[str, dict[str, Any]] = {
    "even": {"partition": {"alpha": math.inf}},
    "skewed": {"partition": {"alpha": 0.05}},
    "cured": {"partition": {"alpha": 0.05}, "regularizers": "feddecorr"},
}
"""Clients that hold all classes alike, clients that don't, and those with FedDecorr: the tutorial's three runs."""


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory for the three runs and the report.")] = Path(
        "feddecorr-demo"
    ),
    json: JsonOption = False,
) -> None:
    """See the collapse and the cure on handwritten digits, which come with the package; takes about a minute.

    Ten clients train the same network from the same start: with the same classes (even), with very different ones
    (skewed: Dirichlet, alpha 0.05), and with FedDecorr (cured). Run it again to continue after an interruption.

        feddecorr demo --out my-demo
    """
    _start_workers(DEMO_SETTINGS)
    from feddecorr.settings.flat import parse_settings

    settings = {name: parse_settings({**DEMO_SETTINGS, **extra}) for name, extra in DEMO_RUNS.items()}
    for name, (experiment, options) in settings.items():
        _train(experiment, options, out / name, title=name)
    from feddecorr.report.runs_page import write_report
    from feddecorr.runs.directory import RunDirectory

    page = out / "report.html"
    write_report([out / name for name in DEMO_RUNS], page)
    last = {name: RunDirectory.open(out / name).rounds()[-1] for name in DEMO_RUNS}
    if json:
        keys = ("round", "accuracy", "effective_rank", "significant_singular_values")
        results = {name: {key: getattr(record, key) for key in keys} for name, record in last.items()}
        print_json({"runs": results, "report": str(page.resolve())})
        return
    rows = [
        [
            name,
            percent(record.accuracy),
            f"{number(record.effective_rank, 1)} of {len(record.singular_values or [])}",
            number(record.significant_singular_values),
        ]
        for name, record in last.items()
    ]
    print_table(["run", "accuracy", "effective rank", "significant singular values"], rows)
    print_text(f"report: {page.resolve()}")


def _train(experiment: Experiment, options: RunOptions, directory: Path, *, title: str) -> None:
    from feddecorr.runs.directory import RunDirectory
    from feddecorr.runs.pipeline import ensure, simulate

    held = RunDirectory(directory)
    if held.is_done(experiment, options):
        say(f"{title}: already trained; remove {directory} to train it again")
        return
    simulation = simulate(experiment, options)
    records = ensure(experiment, options, directory, through=simulation)
    done = held.finished_rounds()
    complete(records, directory, title=title, done=done, rounds=options.rounds, simulation=simulation)


def _parse(words: Sequence[str], trust: Trust) -> tuple[Experiment, RunOptions]:
    """Parse the settings, and let workers start on their imports while this process does its own."""
    _start_workers(read_overrides(words))
    from feddecorr.settings.flat import parse_settings
    from feddecorr.settings.short_keys import read_settings

    return parse_settings(read_settings(words, trust=trust), trust)


def _start_workers(settings: Mapping[str, Any]) -> None:
    engine = settings.get("engine")
    if engine == "pool" or (isinstance(engine, dict) and engine.get("name") == "pool"):
        from feddecorr.engines.processes import warm_up

        warm_up()


def complete(
    records: Iterator[Record],
    directory: Path,
    *,
    title: str,
    done: int,
    rounds: int,
    simulation: Simulation | None = None,
) -> None:
    """Let a run finish and show its progress, of a simulation within rounds, too; say how to resume what breaks off."""
    from feddecorr.engines.processes import keep_freed_memory
    from feddecorr.runs.directory import RunDirectory

    keep_freed_memory()
    trained = None if simulation is None else simulation.trained_rounds
    try:
        follow(records, title=title, done=done, rounds=rounds, trained=trained)
    except (RunError, OSError, MemoryError, KeyboardInterrupt) as error:
        if kept := RunDirectory(directory).finished_rounds():
            when = "" if isinstance(error, KeyboardInterrupt) else "once the cause is fixed, "
            say(f"Finished rounds are kept ({kept}): {when}'feddecorr resume {directory}' continues.")
        raise


def print_outcome(directory: Path, *, json: bool) -> None:
    """Print the whole run as JSON, or its last round in a line."""
    from feddecorr.runs.directory import RunDirectory

    run = RunDirectory.open(directory)
    if note := run.federation().note:
        say(f"note on the data: {note}")
    if because := (run.environment() or {}).get("batching", {}).get("because"):
        say(f"clients trained one by one: {because}")
    if json:
        print_json(run.to_dict())
        return
    last = run.last_round()
    found = {
        "accuracy": percent(last.accuracy),
        "effective rank": number(last.effective_rank, 1),
        "significant singular values": number(last.significant_singular_values),
    }
    shown = found if last.model else {term: number(value) for term, value in last.terms.items()}
    print_text(", ".join([f"{directory}: round {last.round}", *(f"{name} {value}" for name, value in shown.items())]))
