"""What came of the arms of a study, from the runs themselves or from records of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from feddecorr.errors import UserError
from feddecorr.results.study import Arm, Result
from feddecorr.results.summary import Summary
from feddecorr.runs.directory import RunDirectory
from feddecorr.sweeps.jobs import address


def results_of(arms: Sequence[Arm], store: Path, known: Sequence[Summary] = ()) -> list[Result]:
    """Look the arms up in the store and then in records; runs that neither has to their end are missing."""
    of_runs = [_of_run(arm, store / address(arm.experiment)) for arm in arms]
    of_records = results_of_records(arms, known)
    return [run if run.summary else record for run, record in zip(of_runs, of_records, strict=True)]


def unknown(arms: Sequence[Arm], known: Sequence[Summary]) -> list[Arm]:
    """Return the arms that the records do not hold to their end."""
    found = results_of_records(arms, known)
    return [arm for arm, result in zip(arms, found, strict=True) if result.summary is None]


def _of_run(arm: Arm, path: Path) -> Result:
    try:
        if RunDirectory(path).finished_rounds() < arm.experiment.rounds:
            return Result(arm.labels, None)
        return Result(arm.labels, Summary.of(RunDirectory.open(path), arm.experiment), path)
    except UserError:  # why, the runner has said
        return Result(arm.labels, None)


def results_of_records(arms: Sequence[Arm], summaries: Sequence[Summary]) -> list[Result]:
    """Look the arms up in records; runs that are not there, or not to their end, are missing."""
    known = {summary.digest: summary for summary in summaries}
    return [_of_record(arm, known.get(address(arm.experiment))) for arm in arms]


def _of_record(arm: Arm, summary: Summary | None) -> Result:
    whole = summary is not None and len(summary.rounds) >= arm.experiment.rounds
    return Result(arm.labels, summary.as_asked(arm.experiment) if summary and whole else None)
