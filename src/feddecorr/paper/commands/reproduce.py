"""The command that runs the studies of the paper, and your own."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from feddecorr.cli.console import JsonOption, print_json, print_table, say
from feddecorr.cli.progress import duration
from feddecorr.cli.sweep import (
    AccountOption,
    DryRunOption,
    GpusOption,
    GresOption,
    JobsOption,
    KnownOption,
    MemoryOption,
    OnOption,
    PartitionOption,
    SeedsOption,
    ShardOption,
    StudyPlan,
    TasksOption,
    TimeOption,
    choose_place,
    estimate,
    execute,
    missing_data,
    name_missing,
    redraw,
    warm_up_processes,
)
from feddecorr.errors import UserError

if TYPE_CHECKING:
    from feddecorr.results.study import Study


def reproduce(  # noqa: PLR0913, PLR0917 - an argument for each option
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A study, 'all', or your own package.module:Study.")
    ] = None,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings for all runs, such as device=cuda.")
    ] = None,
    scale: Annotated[
        str, typer.Option(help="paper: as published; small: hours; many: 20 seeds; smoke: seconds.")
    ] = "small",
    seeds: SeedsOption = None,
    jobs: JobsOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Directory of runs and results; by default studies/SCALE.")
    ] = None,
    records: Annotated[
        list[Path] | None, typer.Option(help="Draw from these records ('feddecorr records') alone, and run nothing.")
    ] = None,
    known: KnownOption = None,
    shard: ShardOption = None,
    on: OnOption = "local",
    memory: MemoryOption = None,
    gpus: GpusOption = None,
    time: TimeOption = None,
    gres: GresOption = None,
    partition: PartitionOption = None,
    account: AccountOption = None,
    tasks: TasksOption = None,
    list_all: Annotated[
        bool, typer.Option("--list", help="List all studies and their runs; with --known, also the recorded times.")
    ] = False,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Run a study of the paper: all its runs, then its tables and figures with the paper's own numbers.

    Runs are in OUT/runs and are shared between studies: finished runs are never repeated, and interrupted ones
    continue, also with several commands at once. Results are OUT/NAME.md, OUT/NAME.html and OUT/NAME/*.csv.

        feddecorr reproduce --list
        feddecorr reproduce NAME --scale small --seeds 3
        feddecorr reproduce NAME device=cuda engine=pool --scale paper
        feddecorr reproduce NAME --records results/NAME.jsonl
        feddecorr reproduce NAME --known results/NAME.jsonl --seeds 5
        feddecorr reproduce NAME --shard 2/10
        feddecorr reproduce NAME --on ray://head:10001
    """
    if on == "local" and not (list_all or dry_run or records):
        warm_up_processes()
    from feddecorr.paper.scales import find_scale  # noqa: PLC0415 - PyTorch is loaded when it is needed
    from feddecorr.paper.studies import ALL, find_studies  # noqa: PLC0415
    from feddecorr.results.summary import read_summaries  # noqa: PLC0415
    from feddecorr.sweeps.jobs import RunShard  # noqa: PLC0415

    count = seeds or find_scale(scale).seeds
    if name and "=" in name:
        words, name = [name, *(words or [])], None
    if name is None and not list_all:
        raise UserError("which study? 'feddecorr reproduce --list' shows them all")
    chosen = name or ALL

    def command(study: Study) -> str:
        named = shlex.join([chosen if ":" in chosen else study.name, *(words or [])])
        return f"feddecorr reproduce {named} --scale {scale} --seeds {count}"

    found = read_summaries([*(records or []), *(known or [])])
    store = out or Path("studies") / scale
    part = RunShard.parse(shard) if shard else None
    study_plan = StudyPlan(find_studies(chosen), scale, count, store, command, found, words or (), part)
    if list_all:
        _list(study_plan, json=json)
        return
    if records and not dry_run:
        redraw(study_plan, json=json)
        return
    asked = {"gpus": gpus, "time": time, "gres": gres, "partition": partition, "account": account, "tasks": tasks}
    executor = choose_place(on, store, jobs=jobs, memory=memory, **asked)
    if dry_run:
        estimate(study_plan, executor, json=json)
    else:
        execute(study_plan, executor, json=json)


def _list(study_plan: StudyPlan, *, json: bool) -> None:
    """List the studies: how many runs, on which data, and for how long those took that are known."""
    from feddecorr.sweeps.jobs import plan  # noqa: PLC0415 - PyTorch is loaded when it is needed

    arms = {study.name: study_plan.arms_of(study) for study in study_plan.studies}
    jobs = {name: plan(each, Path()) for name, each in arms.items()}
    everything = [arm for each in arms.values() for arm in each]
    missing = missing_data(everything)
    seconds = {summary.digest: sum(line["seconds"] for line in summary.rounds) for summary in study_plan.known}
    listed = []
    for study in study_plan.studies:
        recorded = [seconds[job.digest] for job in jobs[study.name] if job.digest in seconds]
        listed.append(
            {
                "name": study.name,
                "shows": study.shows,
                "place": study.place,
                "runs": len(jobs[study.name]),
                "missing_data": missing_data(arms[study.name]),
                "recorded_runs": len(recorded),
                "recorded_seconds": sum(recorded),
            }
        )
    if json:
        print_json(listed)
        return
    rows = [[each["name"], each["place"], str(each["runs"]), _times(each), each["shows"]] for each in listed]
    headings = ["name", "place", "runs", "recorded", "what it shows"]
    if not seconds:
        headings, *rows = ([*row[:3], row[4]] for row in (headings, *rows))
    print_table(headings, rows)
    say(f"all together: {len(plan(everything, Path()))} runs ({study_plan.scale})")
    name_missing(missing)


def _times(study: dict[str, Any]) -> str:
    runs = study["recorded_runs"]
    return f"{runs} in {duration(study['recorded_seconds'])}" if runs else "–"
