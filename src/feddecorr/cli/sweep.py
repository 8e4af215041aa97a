"""The command that does a grid of one's own."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from feddecorr.cli.console import JsonOption, TrustOption
from feddecorr.cli.execution import (
    DryRunOption,
    JobsOption,
    SeedsOption,
    StudyPlan,
    estimate,
    execute,
    warm_up_processes,
)
from feddecorr.cli.run import Words
from feddecorr.config.overrides import read_overrides, said
from feddecorr.core.trust import Trust


def sweep(  # noqa: PLR0913, PLR0917 - an argument for each option
    words: Words = None,
    over: Annotated[
        list[str] | None, typer.Option(metavar="KEY=A,B,C", help="Vary a setting; repeat for more.")
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option(metavar="CONDITION", help="Only combinations that fulfil it; repeat for more.")
    ] = None,
    seeds: SeedsOption = None,
    jobs: JobsOption = None,
    out: Annotated[Path | None, typer.Option(help="Directory of runs and results; by default below sweeps/.")] = None,
    dry_run: DryRunOption = False,
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    """Do all combinations of settings of your own, and compare them in a table.

    Takes the words of 'run'. What is varied stands in a table [sweep] of the file, or is given here:

        feddecorr sweep experiment.toml --over partition.alpha=0.05,0.5 --over regularizers=none,feddecorr --seeds 3

        feddecorr sweep experiment.toml --over method=fedavg,moon --where 'method = fedavg or rounds > 5' --dry-run
    """
    if not dry_run:
        warm_up_processes()
    from feddecorr.sweeps.sweep import Sweep, SweepStudy, read_over  # noqa: PLC0415 - see run

    settings = read_overrides(words or [])
    table = Sweep.parse(settings.pop("sweep", {}))
    given = dict(map(read_over, over or []))
    table = table.model_copy(update={"over": {**table.over, **given}, "where": [*table.where, *(where or [])]})
    name = next((Path(word).stem for word in words or [] if "=" not in word), "sweep")
    count = len(table.over["seed"]) if "seed" in table.over else seeds or table.seeds or 1
    options = [f"--over={word}" for word in over or []] + [f"--where={word}" for word in where or []]
    command = shlex.join(["feddecorr", "sweep", *(words or []), *options, f"--seeds={count}"])
    spoken = said([*(words or []), *(over or [])])
    study = SweepStudy(name, settings, table, Trust(spoken, files=trust))
    study_plan = StudyPlan([study], "own", count, out or Path("sweeps") / name, lambda _: command)
    if dry_run:
        estimate(study_plan, json=json)
    else:
        execute(study_plan, jobs=jobs, json=json)
