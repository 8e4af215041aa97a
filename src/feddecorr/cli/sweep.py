"""Many runs: the command `sweep`, and what it shares with the studies of the paper."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from feddecorr.cli.console import JsonOption, TrustOption, Words, print_json, print_result, print_table, print_text, say
from feddecorr.cli.progress import follow_runs
from feddecorr.config.overrides import said
from feddecorr.core.trust import Trust
from feddecorr.errors import RunError, UserError

if TYPE_CHECKING:
    from feddecorr.results.study import Arm, Finding, Result, Study
    from feddecorr.results.summary import Summary
    from feddecorr.sweeps.executor import Executor
    from feddecorr.sweeps.jobs import Job, RunShard
    from feddecorr.sweeps.status import FailedRun

JobsOption = Annotated[int | None, typer.Option(min=1, help="Cores to use; all by default.")]
SeedsOption = Annotated[int | None, typer.Option(min=1, help="Number of seeds to repeat everything with.")]
KnownOption = Annotated[
    list[Path] | None,
    typer.Option(metavar="RECORDS", help="Skip the runs that these records hold ('feddecorr records'); repeatable."),
]
ShardOption = Annotated[
    str | None,
    typer.Option(
        metavar="I/N",
        help="Only this part of the runs: 1/3, 2/3 and 3/3 are all, on as many machines. The part of a run never "
        "changes, whatever is added.",
    ),
]
ENGINES = "Where the runs are done"
OnOption = Annotated[
    str,
    typer.Option(
        rich_help_panel=ENGINES,
        help="local; ray (the cluster in RAY_ADDRESS, or else one of this machine's cores), or its address, such as "
        "ray://head:10001; slurm, a job array on a shared folder.",
    ),
]
MemoryOption = Annotated[
    str | None,
    typer.Option(metavar="SIZE", rich_help_panel=ENGINES, help="What a run needs, such as 4G: Ray, Slurm."),
]
GpusOption = Annotated[
    float | None,
    typer.Option(min=0, rich_help_panel=ENGINES, help="Share of a card that a run needs, such as 0.25: Ray."),
]
TimeOption = Annotated[
    str | None, typer.Option(rich_help_panel=ENGINES, help="Limit of a task, such as 4:00:00: Slurm.")
]
GresOption = Annotated[
    str | None, typer.Option(rich_help_panel=ENGINES, help="What a task needs besides, such as gpu:1: Slurm.")
]
PartitionOption = Annotated[str | None, typer.Option(rich_help_panel=ENGINES, help="Partition: Slurm.")]
AccountOption = Annotated[str | None, typer.Option(rich_help_panel=ENGINES, help="Account: Slurm.")]
TasksOption = Annotated[
    int | None,
    typer.Option(min=1, rich_help_panel=ENGINES, help="Tasks that share the runs; one for each by default: Slurm."),
]
DryRunOption = Annotated[
    bool,
    typer.Option("--dry-run", help="List the runs and their progress, or print the script for Slurm; run nothing."),
]


@dataclass(frozen=True)
class StudyPlan:
    """Studies to run together, and the command that runs one of them."""

    studies: Sequence[Study]
    scale: str
    seeds: int
    out: Path
    command: Callable[[Study], str]
    known: Sequence[Summary] = ()
    """Records of runs that need not be repeated."""
    overrides: Sequence[str] = ()
    """Settings that all runs have in place of the study's."""
    shard: RunShard | None = None
    """The part of the runs that is done here; by default, all."""

    @property
    def store(self) -> Path:
        """The directory of the runs, named by their digests."""
        return self.out / "runs"

    def arms(self) -> list[Arm]:
        """Return the arms of all studies, except those that are known."""
        from feddecorr.sweeps.jobs import unknown

        return unknown([arm for study in self.studies for arm in self.arms_of(study)], self.known)

    def jobs(self) -> tuple[list[Job], list[Job]]:
        """Return all runs that are not known, and those of them that are done here."""
        from feddecorr.sweeps.jobs import plan

        jobs = plan(self.arms(), self.store)
        return jobs, [job for job in jobs if self.shard is None or job.digest in self.shard]

    def arms_of(self, study: Study) -> list[Arm]:
        """Return the arms of one study."""
        arms = study.arms(self.scale, self.seeds)
        self._refuse_labels(arms)
        return [self._override(arm) for arm in arms] if self.overrides else arms

    def _refuse_labels(self, arms: Iterable[Arm]) -> None:
        """Refuse settings by which the study tells its runs apart: its tables would name what was not run."""
        labels = {label for arm in arms for label in arm.labels}
        for word in self.overrides:
            key = word.partition("=")[0].strip()
            if labels & {key, key.removesuffix("s"), key.rpartition(".")[2]}:
                raise UserError(f"'{word}': runs of this study differ in it: 'feddecorr sweep' varies anything")

    def _override(self, arm: Arm) -> Arm:
        from feddecorr.results.study import Arm
        from feddecorr.settings.flat import parse_settings, to_settings
        from feddecorr.settings.short_keys import read_settings

        settings = read_settings(self.overrides, to_settings(arm.experiment, arm.options))
        return Arm(arm.labels, *parse_settings(settings))


def missing_data(runs: Iterable[Arm | Job]) -> list[str]:
    """Return the names of the data sets that have to be fetched before these runs."""
    from feddecorr.data import DATA
    from feddecorr.data.public import is_missing

    return list(dict.fromkeys(DATA.name(run.experiment.data) for run in runs if is_missing(run.experiment.data)))


def warm_up_processes() -> None:
    """Let the processes of runs start on their imports while this one does its own."""
    from feddecorr.engines.processes import warm_up

    warm_up()


def name_missing(names: Iterable[str]) -> None:
    """Say which data sets have to be fetched, and by which command."""
    for name in names:
        say(f"{name} is not on this machine: {fetching(name)}")


def fetching(name: str) -> str:
    """Return the command that fetches a data set."""
    return f"'feddecorr data get {name}'"


SIZE = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def read_size(word: str) -> int:
    """Return the bytes that a word such as 4G or 512M says."""
    found = re.fullmatch(r"(\d{1,15})([KMGT]?)B?", word.upper(), re.ASCII)
    if not found:
        raise UserError(f"--memory {word}: expected a size such as 4G or 512M")
    return int(found[1]) * SIZE[found[2]]


def choose_place(on: str, out: Path, **options: Any) -> Executor:
    """Return what does the runs; `options` are those of the command line that only some can use."""
    from feddecorr.sweeps.executors import choose_executor
    from feddecorr.sweeps.on_slurm import command_of_tasks

    given = {**options, "memory": read_size(options["memory"]) if options["memory"] else None}
    if on == "slurm":
        given |= {"command": command_of_tasks(sys.argv[1:]), "out": out}
    return choose_executor(on, given)


def estimate(study_plan: StudyPlan, executor: Executor, *, json: bool) -> None:
    """List the runs and their progress, or print the script that would do them."""
    from feddecorr.settings.flat import command

    _, found = study_plan.jobs()
    if script := executor.script([job for job in found if not job.look()]):
        print_result(script.rstrip("\n"), {"script": script}, json=json)
        return
    name_missing(missing_data(found))
    done = sum(job.look() for job in found)
    images = [job.images() for job in found]
    if json:
        runs = [
            {
                "digest": job.digest,
                "name": job.name,
                "finished": job.finished,
                "rounds": job.options.rounds,
                "images_left": left,
                "command": command(job.experiment, job.options),
            }
            for job, left in zip(found, images, strict=True)
        ]
        print_json({"runs": runs})
        return
    rows = [
        [job.digest, job.name, f"{job.finished} of {job.options.rounds}", "–" if left is None else f"{left:.0f}"]
        for job, left in zip(found, images, strict=True)
    ]
    print_table(["run", "what", "rounds", "images left"], rows)
    print_text(f"{len(rows)} run{'s' * (len(rows) != 1)}, {done} done, {sum(filter(None, images)):.0f} images left")
    say("how long one of them takes: its command (--json has them) with --dry-run, or 'feddecorr plan' in place of run")


def execute(study_plan: StudyPlan, executor: Executor, *, json: bool) -> None:
    """Run everything, write all tables and figures, and then say what failed."""
    from feddecorr.results.study import PlannedRun, write_plan
    from feddecorr.sweeps.jobs import results_of

    planned, own = study_plan.jobs()
    _refuse_without_data(own)
    write_plan(study_plan.out, [PlannedRun(job.digest, job.name, job.options.rounds) for job in planned])
    if study_plan.shard is not None:
        say(f"shard {study_plan.shard}: {len(own)} of {len(planned)} runs")
    title = study_plan.studies[0].name if len(study_plan.studies) == 1 else f"{len(study_plan.studies)} studies"
    try:
        with follow_runs(title) as tell:
            failures = executor.run(own, tell)
    except KeyboardInterrupt:
        say("All finished rounds are kept: the same command continues.")
        raise
    drawn = []
    for study in study_plan.studies:
        results = results_of(study_plan.arms_of(study), study_plan.store, study_plan.known)
        drawn.append(_draw(study_plan, study, results))
    _print_studies(drawn, json=json, failures=failures)


def _refuse_without_data(jobs: Sequence[Job]) -> None:
    """Refuse to begin if no run has its data; if some have not, say so: they will fail, and the others be done."""
    names = missing_data(jobs)
    if jobs and all(missing_data([job]) for job in jobs):
        raise UserError(f"data that are not on this machine: {' and '.join(map(fetching, names))}")
    name_missing(names)


def redraw(study_plan: StudyPlan, *, json: bool) -> None:
    """Write all tables and figures from the records alone."""
    from feddecorr.sweeps.jobs import results_of_records

    drawn = []
    for study in study_plan.studies:
        results = results_of_records(study_plan.arms_of(study), study_plan.known)
        drawn.append(_draw(study_plan, study, results))
    _print_studies(drawn, json=json, failures={})


def _draw(study_plan: StudyPlan, study: Study, results: Sequence[Result]) -> dict[str, Any]:
    from feddecorr.report.page import Document

    missing = sum(result.summary is None for result in results)
    made = f"Made from {len(results)} runs{f', of which {missing} are missing' * bool(missing)}, by this command:"
    findings = study.findings(results, study_plan.scale)
    lead = f"{study.shows[:1].upper()}{study.shows[1:]} ({study.place})."
    files = Document(study.name, lead, made, study_plan.command(study), findings).write(study_plan.out)
    return {
        "name": study.name,
        "shows": study.shows,
        "place": study.place,
        "scale": study_plan.scale,
        "seeds": study_plan.seeds,
        "runs": len(results),
        "missing": missing,
        "tables": [_describe(finding) for finding in findings if _is_table(finding)],
        "files": [str(file.resolve()) for file in files],
    }


def _is_table(finding: Finding) -> bool:
    return hasattr(finding, "rows")


def _describe(table: Any) -> dict[str, Any]:
    return {"title": table.title, "headings": list(table.headings), "rows": list(map(list, table.rows))}


def _print_studies(drawn: Sequence[dict[str, Any]], *, json: bool, failures: dict[str, FailedRun]) -> None:
    if json:
        failed = [
            {"run": digest, "name": failure.name, "reason": failure.reason} for digest, failure in failures.items()
        ]
        print_json({"studies": list(drawn), "failures": failed})
    elif len(drawn) == 1:
        for table in drawn[0]["tables"]:
            print_table(table["headings"], table["rows"], title=table["title"])
            print_text("")
        print_text(f"page: {drawn[0]['files'][1]}")
    else:
        rows = [[each["name"], str(each["runs"]), str(each["missing"]), each["files"][1]] for each in drawn]
        print_table(["study", "runs", "missing", "page"], rows)
    for digest, failure in failures.items():
        say("\n".join(filter(None, [failure.trace, f"{failure.name} ({digest}) failed: {failure.reason}"])))
    if failures:
        raise RunError(
            f"runs that failed: {len(failures)}; all others are done, and the same command tries these again"
        )


def sweep(  # noqa: PLR0913, PLR0917 - an argument for each option
    words: Words = None,
    over: Annotated[list[str] | None, typer.Option(metavar="KEY=A,B,C", help="Vary a setting; repeatable.")] = None,
    where: Annotated[
        list[str] | None, typer.Option(metavar="CONDITION", help="Only combinations that fulfil it; repeatable.")
    ] = None,
    seeds: SeedsOption = None,
    jobs: JobsOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Directory of runs and results; by default in sweeps/.")
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
    dry_run: DryRunOption = False,
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    r"""Run all combinations of settings, and compare them in a table.

    Takes the settings of 'run'. The file's table [sweep], or --over, says what to vary:

        feddecorr sweep experiment.toml --over partition.alpha=0.05,0.5 \
            --over regularizers=none,feddecorr --seeds 3
        feddecorr sweep experiment.toml --over method=fedavg,moon \
            --where 'method = fedavg or rounds > 5' --dry-run

    On two machines without a common folder, and then merged:

        feddecorr sweep experiment.toml --shard 1/2 --out here
        feddecorr records here there -o both.jsonl

    On a cluster:

        feddecorr sweep experiment.toml --on ray://head:10001
        feddecorr sweep experiment.toml --on slurm --time 4:00:00 \
            --partition short --tasks 20
    """
    if on == "local" and not dry_run:
        warm_up_processes()
    from feddecorr.results.summary import read_summaries
    from feddecorr.settings.short_keys import read_settings
    from feddecorr.sweeps.jobs import RunShard
    from feddecorr.sweeps.sweep import Sweep, SweepStudy, read_over

    trusted = Trust(said([*(words or []), *(over or [])]), files=trust)
    settings = read_settings(words or [], trust=trusted)
    table = Sweep.parse(settings.pop("sweep", {}))
    given = _once(map(read_over, over or []))
    table = table.model_copy(update={"over": {**table.over, **given}, "where": [*table.where, *(where or [])]})
    name = next((Path(word).stem for word in words or [] if "=" not in word), "sweep")
    if "seed" in table.over and (seeds or table.seeds):
        raise UserError("seeds are both counted and listed: say --seeds N or --over seed=A,B,C")
    if not (table.over or seeds or table.seeds):
        raise UserError("there is nothing to vary: say --over KEY=A,B,C or --seeds N, or a table [sweep] in the file")
    count = len(table.over["seed"]) if "seed" in table.over else seeds or table.seeds or 1
    options = [f"--over={word}" for word in over or []] + [f"--where={word}" for word in where or []]
    options += [] if "seed" in table.over else [f"--seeds={count}"]
    command = shlex.join(["feddecorr", "sweep", *(words or []), *options])
    study = SweepStudy(name, settings, table, trusted)
    study_plan = StudyPlan(
        [study],
        "own",
        count,
        out or Path("sweeps") / name,
        lambda _: command,
        read_summaries(known or []),
        shard=RunShard.parse(shard) if shard else None,
    )
    asked = {"gpus": gpus, "time": time, "gres": gres, "partition": partition, "account": account, "tasks": tasks}
    executor = choose_place(on, study_plan.out, jobs=jobs, memory=memory, **asked)
    if dry_run:
        estimate(study_plan, executor, json=json)
    else:
        execute(study_plan, executor, json=json)


def _once(named: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return what is varied; refuse a setting that is named twice."""
    found: dict[str, Any] = {}
    for key, values in named:
        if key in found:
            raise UserError(f"--over {key} is said twice: name all of its values in one, such as {key}=A,B,C")
        found[key] = values
    return found
