"""What commands that train have in common: settings become an experiment, a run goes to its end and is told of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feddecorr.cli.console import number, print_json, print_text, say
from feddecorr.errors import RunError

if TYPE_CHECKING:
    from feddecorr.config.experiment import Experiment
    from feddecorr.core.trust import Trust
    from feddecorr.runs.record import Record
    from feddecorr.settings.options import RunOptions


def prepare(settings: dict[str, Any], trust: Trust | None = None) -> tuple[Experiment, RunOptions]:
    """Return the experiment and its run options; workers begin their imports while this process does its own."""
    engine = settings.get("engine")
    if engine == "pool" or (isinstance(engine, dict) and engine.get("name") == "pool"):
        from feddecorr.engines.processes import warm_up  # noqa: PLC0415 - only where it is needed

        warm_up()
    from feddecorr.settings.flat import parse_settings  # noqa: PLC0415 - PyTorch is loaded when it is needed

    return parse_settings(settings, trust)


def complete(records: Iterator[Record], directory: Path, *, title: str, done: int, rounds: int) -> None:
    """Let a run go on to its end, with progress; if it breaks off, say how to go on."""
    from feddecorr.cli.progress import follow  # noqa: PLC0415 - rich is loaded when it is needed
    from feddecorr.engines.processes import keep_freed_memory  # noqa: PLC0415
    from feddecorr.runs.directory import RunDirectory  # noqa: PLC0415 - PyTorch is loaded when it is needed

    keep_freed_memory()
    try:
        follow(records, title=title, done=done, rounds=rounds)
    except (RunError, OSError, MemoryError, KeyboardInterrupt) as error:
        if kept := RunDirectory(directory).finished_rounds():
            when = "" if isinstance(error, KeyboardInterrupt) else "once the cause is mended, "
            say(f"The finished rounds, {kept}, are kept: {when}'feddecorr resume {directory}' goes on.")
        raise


def tell(directory: Path, *, json: bool) -> None:
    """Print what came out: the whole run as JSON, or the last round in a few words."""
    from feddecorr.runs.directory import RunDirectory  # noqa: PLC0415 - PyTorch is loaded when it is needed

    run = RunDirectory.open(directory)
    if note := run.federation().note:
        say(f"mind the data: {note}")
    if because := (run.environment() or {}).get("batching", {}).get("because"):
        say(f"clients trained one by one: {because}")
    if json:
        print_json(run.to_dict())
        return
    last = run.last_round()
    found = {
        "accuracy": number(last.accuracy),
        "effective rank": number(last.effective_rank, 1),
        "significant singular values": number(last.significant_singular_values),
    }
    told = found if last.model else {term: number(value) for term, value in last.terms.items()}
    print_text(", ".join([f"{directory}: round {last.round}", *(f"{name} {value}" for name, value in told.items())]))
