"""What the commands that do many runs have in common: plan, do, draw, and tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from feddecorr.cli.console import print_json, print_table, print_text, say
from feddecorr.cli.study_progress import follow_runs
from feddecorr.core.text import markdown_code
from feddecorr.errors import RunError

if TYPE_CHECKING:
    from feddecorr.results.study import Arm, Finding, Result, Study
    from feddecorr.results.summary import Summary
    from feddecorr.sweeps.status import FailedRun

JobsOption = Annotated[int | None, typer.Option(min=1, help="Cores to use; by default all.")]
SeedsOption = Annotated[int | None, typer.Option(min=1, help="Repeat everything with so many seeds.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="List the runs and how far they are, and do nothing.")]


@dataclass(frozen=True)
class StudyPlan:
    """Studies that are to be done together, and the command that does one of them."""

    studies: Sequence[Study]
    scale: str
    seeds: int
    out: Path
    command: Callable[[Study], str]
    known: Sequence[Summary] = ()
    """Records of runs that need not be done again."""

    @property
    def store(self) -> Path:
        """Where the runs lie, by their digests."""
        return self.out / "runs"

    def arms(self) -> list[Arm]:
        """Return the arms of all studies, but those that are known."""
        from feddecorr.sweeps.jobs import unknown  # noqa: PLC0415 - PyTorch is loaded when it is needed

        return unknown([arm for study in self.studies for arm in study.arms(self.scale, self.seeds)], self.known)


def warm_up_processes() -> None:
    """Let the processes of runs begin with their imports while this one does its own."""
    from feddecorr.engines.processes import warm_up  # noqa: PLC0415 - only where it is needed

    warm_up()


def estimate(study_plan: StudyPlan, *, json: bool) -> None:
    """List the runs, and how far they are."""
    from feddecorr.settings.flat import command  # noqa: PLC0415
    from feddecorr.sweeps.jobs import plan  # noqa: PLC0415 - PyTorch is loaded when it is needed

    found = plan(study_plan.arms(), study_plan.store)
    done = sum(job.look() for job in found)
    if json:
        runs = [
            {
                "digest": job.digest,
                "name": job.name,
                "finished": job.finished,
                "rounds": job.options.rounds,
                "command": command(job.experiment, job.options),
            }
            for job in found
        ]
        print_json({"runs": runs})
        return
    rows = [[job.digest, job.name, f"{job.finished} of {job.options.rounds}"] for job in found]
    print_table(["run", "what", "rounds"], rows)
    print_text(f"{len(rows)} runs, {done} done")


def execute(study_plan: StudyPlan, *, jobs: int | None, json: bool) -> None:
    """Do all runs, write all tables and figures, and then say what failed."""
    from feddecorr.sweeps.jobs import results_of  # noqa: PLC0415
    from feddecorr.sweeps.runner import run_all  # noqa: PLC0415 - PyTorch is loaded when it is needed

    title = study_plan.studies[0].name if len(study_plan.studies) == 1 else f"{len(study_plan.studies)} studies"
    try:
        with follow_runs(title) as tell:
            failures = run_all(study_plan.arms(), study_plan.store, jobs=jobs, tell=tell)
    except KeyboardInterrupt:
        say("All finished rounds are kept: the same command goes on.")
        raise
    told = []
    for study in study_plan.studies:
        arms = study.arms(study_plan.scale, study_plan.seeds)
        told.append(_draw(study_plan, study, results_of(arms, study_plan.store, study_plan.known)))
    _tell(told, json=json, failures=failures)


def redraw(study_plan: StudyPlan, *, json: bool) -> None:
    """Write all tables and figures from what is known alone."""
    from feddecorr.sweeps.jobs import results_of_records  # noqa: PLC0415 - PyTorch is loaded when it is needed

    told = []
    for study in study_plan.studies:
        results = results_of_records(study.arms(study_plan.scale, study_plan.seeds), study_plan.known)
        told.append(_draw(study_plan, study, results))
    _tell(told, json=json, failures={})


def _draw(study_plan: StudyPlan, study: Study, results: Sequence[Result]) -> dict[str, Any]:
    from feddecorr.report.page import Document  # noqa: PLC0415 - plotly is loaded when it is needed

    missing = sum(result.summary is None for result in results)
    notes = [f"Made by {markdown_code(study_plan.command(study))} from {len(results)} runs."]
    if missing:
        notes.append(f"Mind: {missing} of them are missing.")
    findings = study.findings(results, study_plan.scale)
    lead = f"{study.shows[:1].upper()}{study.shows[1:]} ({study.place})."
    files = Document(study.name, lead, notes, findings).write(study_plan.out)
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


def _tell(told: Sequence[dict[str, Any]], *, json: bool, failures: dict[str, FailedRun]) -> None:
    if json:
        failed = [
            {"run": digest, "name": failure.name, "reason": failure.reason} for digest, failure in failures.items()
        ]
        print_json({"studies": list(told), "failures": failed})
    elif len(told) == 1:
        for table in told[0]["tables"]:
            print_table(table["headings"], table["rows"], title=table["title"])
            print_text("")
        print_text(f"page: {told[0]['files'][1]}")
    else:
        rows = [[each["name"], str(each["runs"]), str(each["missing"]), each["files"][1]] for each in told]
        print_table(["study", "runs", "missing", "page"], rows)
    for digest, failure in failures.items():
        say("\n".join(filter(None, [failure.trace, f"{failure.name} ({digest}) failed: {failure.reason}"])))
    if failures:
        raise RunError(
            f"runs that failed: {len(failures)}; all others are done, and the same command tries these again"
        )
