"""Commands that train: run and resume."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from feddecorr.cli.console import JsonOption, number, print_json, print_text, say
from feddecorr.errors import RunError
from feddecorr.settings.words import read_words

if TYPE_CHECKING:
    from feddecorr.runs.record import Record
    from feddecorr.settings.experiment import Experiment

Words = Annotated[
    list[str] | None, typer.Argument(metavar="[FILE.toml] [KEY=VALUE]...", help="Settings; later words win.")
]


def run(
    words: Words = None,
    out: Annotated[Path | None, typer.Option(help="Directory of the run; by default a new one below runs/.")] = None,
    json: JsonOption = False,
) -> None:
    """Train a federation and keep the run in a directory.

    A bare name chooses a kind, dotted keys set its options ('feddecorr list' shows them all):

        feddecorr run data=digits clients=10 partition=dirichlet partition.alpha=0.05 model=convnet
        regularizers=feddecorr regularizers.feddecorr.beta=0.1 rounds=20 engine=pool --out runs/a

    The same as a TOML file:  feddecorr run experiment.toml seed=1 --out runs/b
    """
    experiment = prepare(read_words(words or []))
    from feddecorr.runs.pipeline import run as pipeline_run  # noqa: PLC0415 - PyTorch is loaded when it is needed

    out = out or Path("runs") / f"{experiment.label()}-{experiment.digest()}"
    records = pipeline_run(experiment, out)
    complete(records, out, title=out.name, done=0, rounds=experiment.rounds)
    tell(out, json=json)


def resume(
    directory: Annotated[Path, typer.Argument(help="Directory of the run.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[rounds=N] [engine=NAME]", help="Go further, or with another engine."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Go on with a run after any interruption; the result is that of a run that never stopped.

    Example:  feddecorr resume runs/a
    """
    from feddecorr.runs.directory import RunDirectory  # noqa: PLC0415
    from feddecorr.runs.pipeline import resume as pipeline_resume  # noqa: PLC0415
    from feddecorr.settings.experiment import Experiment  # noqa: PLC0415 - PyTorch is loaded when it is needed

    run = RunDirectory.open(directory)
    experiment = Experiment.parse(read_words(words or [], onto=run.experiment().to_dict()))
    done = run.finished_rounds()
    if done == experiment.rounds:
        say(f"{directory} has all of its {done} rounds already")
    records = pipeline_resume(directory, experiment=experiment)
    complete(records, directory, title=directory.name, done=done, rounds=experiment.rounds)
    tell(directory, json=json)


def prepare(settings: dict[str, Any]) -> Experiment:
    """Return the experiment; workers begin their imports while this process does its own."""
    engine = settings.get("engine")
    if engine == "pool" or (isinstance(engine, dict) and engine.get("name") == "pool"):
        from feddecorr.engines.processes import warm_up  # noqa: PLC0415 - only where it is needed

        warm_up()
    from feddecorr.settings.experiment import Experiment  # noqa: PLC0415 - PyTorch is loaded when it is needed

    return Experiment.parse(settings)


def complete(records: Iterator[Record], directory: Path, *, title: str, done: int, rounds: int) -> None:
    """Let a run go on to its end, with progress; if it breaks off, say how to go on."""
    from feddecorr.cli.progress import follow  # noqa: PLC0415 - rich is loaded when it is needed
    from feddecorr.engines.allocator import keep_freed_memory  # noqa: PLC0415

    keep_freed_memory()
    try:
        follow(records, title=title, done=done, rounds=rounds)
    except (RunError, KeyboardInterrupt):
        say(f"All finished rounds are kept: 'feddecorr resume {directory}' goes on.")
        raise


def tell(directory: Path, *, json: bool) -> None:
    """Print what came out: the whole run as JSON, or the last round in a few words."""
    from feddecorr.runs.directory import RunDirectory  # noqa: PLC0415 - PyTorch is loaded when it is needed

    run = RunDirectory.open(directory)
    if note := run.federation()["note"]:
        say(f"mind the data: {note}")
    if json:
        print_json(run.to_dict())
        return
    last = run.rounds()[-1]
    found = {
        "accuracy": number(last.accuracy),
        "effective rank": number(last.effective_rank, 1),
        "significant singular values": number(last.significant_singular_values),
    }
    told = found if last.model else {term: number(value) for term, value in last.terms.items()}
    print_text(", ".join([f"{directory}: round {last.round}", *(f"{name} {value}" for name, value in told.items())]))
