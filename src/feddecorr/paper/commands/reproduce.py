"""The command that runs the studies of the paper, and your own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from feddecorr.cli.console import JsonOption, print_json, print_table, say
from feddecorr.cli.sweep import (
    DryRunOption,
    JobsOption,
    SeedsOption,
    StudyPlan,
    estimate,
    execute,
    redraw,
    warm_up_processes,
)
from feddecorr.errors import UserError

if TYPE_CHECKING:
    from feddecorr.results.study import Study


def reproduce(  # noqa: PLR0913, PLR0917 - an argument for each option
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A study, 'all', or your own package.module:Study.")
    ] = None,
    scale: Annotated[
        str, typer.Option(help="paper: as published; small: hours; many: 20 seeds; smoke: seconds.")
    ] = "small",
    seeds: SeedsOption = None,
    jobs: JobsOption = None,
    out: Annotated[Path | None, typer.Option(help="Directory of runs and results; by default studies/SCALE.")] = None,
    records: Annotated[
        list[Path] | None, typer.Option(help="Draw from these records ('feddecorr records') alone, and run nothing.")
    ] = None,
    known: Annotated[
        list[Path] | None, typer.Option(help="Skip the runs that these records hold ('feddecorr records').")
    ] = None,
    list_all: Annotated[bool, typer.Option("--list", help="List all studies, and how many runs each has.")] = False,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Run a study of the paper: all its runs, then its tables and figures with the paper's own numbers.

    Runs lie in OUT/runs and are shared between studies: what is done is never repeated, and what was interrupted
    continues, also with several commands at once. Results are OUT/NAME.md, OUT/NAME.html and OUT/NAME/*.csv.

        feddecorr reproduce --list

        feddecorr reproduce NAME --scale small --seeds 3

        feddecorr reproduce NAME --records results/NAME.jsonl

        feddecorr reproduce NAME --known results/NAME.jsonl --seeds 5
    """
    if not (list_all or dry_run or records):
        warm_up_processes()
    from feddecorr.paper.scales import find_scale  # noqa: PLC0415 - PyTorch is loaded when it is needed
    from feddecorr.paper.studies import ALL, find_studies  # noqa: PLC0415

    count = seeds or find_scale(scale).seeds
    if list_all:
        _list(find_studies(name or ALL), scale, count, json=json)
        return
    if name is None:
        raise UserError("which study? 'feddecorr reproduce --list' shows them all")

    def command(study: Study) -> str:
        return f"feddecorr reproduce {name if ':' in name else study.name} --scale {scale} --seeds {count}"

    from feddecorr.results.summary import read_summaries  # noqa: PLC0415 - see above

    found = read_summaries([*(records or []), *(known or [])])
    study_plan = StudyPlan(find_studies(name), scale, count, out or Path("studies") / scale, command, found)
    if dry_run:
        estimate(study_plan, json=json)
    elif records:
        redraw(study_plan, json=json)
    else:
        execute(study_plan, jobs=jobs, json=json)


def _list(studies: list[Study], scale: str, seeds: int, *, json: bool) -> None:
    from feddecorr.sweeps.jobs import plan  # noqa: PLC0415 - PyTorch is loaded when it is needed

    arms = {study.name: study.arms(scale, seeds) for study in studies}
    runs = {name: len(plan(each, Path())) for name, each in arms.items()}
    if json:
        print_json(
            [
                {"name": study.name, "shows": study.shows, "place": study.place, "runs": runs[study.name]}
                for study in studies
            ]
        )
        return
    rows = [[study.name, study.place, str(runs[study.name]), study.shows] for study in studies]
    print_table(["name", "place", "runs", "what it shows"], rows)
    together = plan([arm for each in arms.values() for arm in each], Path())
    say(f"all together: {len(together)} runs ({scale})")
