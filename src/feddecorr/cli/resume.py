"""The command that goes on with a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from feddecorr.cli.completing import complete, tell
from feddecorr.cli.console import JsonOption, TrustOption, say
from feddecorr.config.overrides import read_overrides, said
from feddecorr.core.trust import Trust


def resume(
    directory: Annotated[Path, typer.Argument(help="Directory of the run.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[rounds=N] [engine=NAME]", help="More rounds, another engine, or other run options."),
    ] = None,
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    """Go on with a run after any interruption; the result is that of a run that never stopped.

    Example:  feddecorr resume runs/a

    Code of your own that the run was begun with is named again:  feddecorr resume runs/a method=my_module:Mine
    """
    from feddecorr.runs.directory import RunDirectory  # noqa: PLC0415
    from feddecorr.runs.pipeline import resume as pipeline_resume  # noqa: PLC0415
    from feddecorr.settings.flat import parse_settings, to_settings  # noqa: PLC0415 - PyTorch is loaded when it is needed

    run = RunDirectory.open(directory)
    settings = read_overrides(words or [], onto=to_settings(*run.settings()))
    experiment, options = parse_settings(settings, Trust(said(words or []), files=trust))
    done = run.finished_rounds()
    if done == options.rounds:
        say(f"{directory} has all of its {done} rounds already")
    records = pipeline_resume(directory, experiment, options)
    complete(records, directory, title=directory.name, done=done, rounds=options.rounds)
    tell(directory, json=json)
