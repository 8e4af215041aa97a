"""What studies need of runs and the runs do not offer in this form: to be done whatever state they are in."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

from feddecorr.errors import UserError
from feddecorr.runs.directory import Record, RunDirectory
from feddecorr.runs.pipeline import resume, run
from feddecorr.settings import words
from feddecorr.settings.experiment import Experiment

SEVERAL = (words.SEVERAL,)
"""The settings that are tables of kinds by name, where others are one kind with a `name`."""

SCALARS = ("accuracy", "loss", "effective_rank", "significant_singular_values")


def address(experiment: Experiment) -> str:
    """Return the name of the run's directory: the same for all experiments whose results have the same bits."""
    return experiment.digest()


def ensure(experiment: Experiment, path: Path) -> Generator[Record, None, None]:
    """Do the run, go on with it, or find it done; yield the records of the rounds that were missing."""
    if not (path / "experiment.json").exists():
        yield from run(experiment, path)
        return
    directory = RunDirectory.open(path)
    if directory.finished_rounds() < experiment.rounds:
        yield from resume(path, experiment=experiment)


def rounds(directory: RunDirectory) -> list[dict[str, Any]]:
    """Return the records with everything that was found of a model in one place."""
    return [
        {
            "round": line["round"],
            "clients": line["clients"],
            "terms": line["terms"],
            "seconds": line["seconds"],
            "missing": [],
            "model": None if line["accuracy"] is None else _model(line),
            "local_models": {client: _model(found) for client, found in line["local_models"].items()},
            "local_terms": {},
        }
        for line in directory.rounds()
    ]


def _model(found: dict[str, Any]) -> dict[str, Any]:
    own = {name: found[name] for name in (*SCALARS, "singular_values")}
    return {**own, **found["measures"]}


def finished_rounds(path: Path) -> int:
    """Return how many rounds of the run count; none if it has not begun."""
    return RunDirectory(path).finished_rounds()


def is_held(path: Path) -> bool:
    """Tell whether a process is at work on the run."""
    if not path.is_dir():
        return False
    try:
        with RunDirectory(path).locked():
            return False
    except UserError:
        return True
