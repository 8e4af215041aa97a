"""The plan of many runs: what they are called and in which order they come, for who watches them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from feddecorr.core.files import write_json
from feddecorr.core.text import parse_json
from feddecorr.errors import UserError

PLAN = "plan.json"
"""The file in the directory of a sweep or a study, next to its runs."""


@dataclass(frozen=True)
class PlannedRun:
    """A run that is asked for: the name of its directory, what it is, and its rounds."""

    digest: str
    name: str
    rounds: int


def write_plan(folder: Path, runs: Sequence[PlannedRun]) -> None:
    """Write the plan into the directory of a sweep or a study."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / PLAN, {"runs": [asdict(run) for run in runs]})


def plan_files(folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the plans of these folders: their own, those of the sweeps in them, or that of the sweep around them."""
    for folder in folders:
        places = [folder, *sorted(each for each in folder.iterdir() if each.is_dir()), folder.resolve().parent]
        yield from (place / PLAN for place in places if (place / PLAN).is_file())


def read_plan(file: Path) -> list[PlannedRun]:
    """Return the runs of a plan."""
    try:
        runs = parse_json(file.read_bytes())["runs"]
        return [PlannedRun(str(run["digest"]), str(run["name"]), int(run["rounds"])) for run in runs]
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise UserError(f"{file} is no plan of runs that can be read: {error!r}") from error
