"""The results of a study's arms, from the runs themselves or from records of them."""

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
    of_runs = [_of_run(arm, store / address(arm)) for arm in arms]
    of_records = results_of_records(arms, known)
    return [run if run.summary else record for run, record in zip(of_runs, of_records, strict=True)]


def unknown(arms: Sequence[Arm], known: Sequence[Summary]) -> list[Arm]:
    """Return the arms that the records do not hold to their end."""
    found = results_of_records(arms, known)
    return [arm for arm, result in zip(arms, found, strict=True) if result.summary is None]


def _of_run(arm: Arm, path: Path) -> Result:
    try:
        if RunDirectory(path).finished_rounds() < arm.options.rounds:
            return Result(arm.labels, None)
        return Result(arm.labels, Summary.of(RunDirectory.open(path), arm.options), path)
    except UserError:  # why, the runner has said
        return Result(arm.labels, None)


def results_of_records(arms: Sequence[Arm], summaries: Sequence[Summary]) -> list[Result]:
    """Look the arms up in records; runs that are not there, or not to their end, are missing."""
    known = {summary.digest: summary for summary in summaries}
    return [_of_record(arm, known.get(address(arm))) for arm in arms]


def _of_record(arm: Arm, summary: Summary | None) -> Result:
    """Take a record that has all rounds and, where they are asked for, the clients' models."""
    if summary is None or len(summary.rounds) < arm.options.rounds:
        return Result(arm.labels, None)
    found = summary.as_asked(arm.options)
    asked = arm.options.evaluation
    lacks = (asked.clients and not found.local_models) or (asked.epochs and not found.local_terms)
    return Result(arm.labels, None if lacks else found)
