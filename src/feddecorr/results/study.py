"""Studies: a declared list of runs, the tables and figures to make from them, and the plan file for `watch`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from feddecorr.config.experiment import Experiment
from feddecorr.core.files import read_json, write_json
from feddecorr.errors import UserError
from feddecorr.results.summary import Summary
from feddecorr.settings.options import RunOptions

if TYPE_CHECKING:
    import plotly.graph_objects as go

SCALES = ("paper", "small", "many", "protocol", "protocol-small", "smoke")
"""In which sizes every study comes; `scales.py` says what they mean."""

Label = str | int | float
Labels = dict[str, Label]


@dataclass(frozen=True)
class Arm:
    """One run of a study: the words that name it in tables, its experiment (seed included) and its options."""

    labels: Labels
    experiment: Experiment
    options: RunOptions


@dataclass(frozen=True)
class Result:
    """The result of an arm: no summary where the run is missing or failed, no directory where only records are left."""

    labels: Labels
    summary: Summary | None
    directory: Path | None = None


@dataclass(frozen=True)
class Table:
    """A table of words, as it is shown."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class Figure:
    """A figure, which is drawn when it is asked for."""

    title: str
    draw: Callable[[], go.Figure]
    note: str = ""


Finding = Table | Figure


class Study(ABC):
    """A name, a line about what it shows, where the paper has it, its runs, and its tables and figures."""

    name: str
    shows: str
    place: str

    @abstractmethod
    def arms(self, scale: str, seeds: int) -> list[Arm]:
        """Return all runs at that scale, for the seeds from 0."""

    @abstractmethod
    def findings(self, results: Sequence[Result], scale: str) -> list[Finding]:
        """Return tables and figures of whatever results there are; what is missing is shown as missing."""


PLAN = "plan.json"
"""The file in the directory of a sweep or a study, next to its runs."""


@dataclass(frozen=True)
class PlannedRun:
    """A run that is asked for: the name of its directory, what it is, and its rounds."""

    digest: str
    name: str
    rounds: int


def write_plan(folder: Path, runs: Sequence[PlannedRun]) -> None:
    """Write the plan into the directory of a sweep or a study, in place of an earlier one and of no other file."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / PLAN).exists():
        read_plan(folder / PLAN)
    write_json(folder / PLAN, {"runs": [asdict(run) for run in runs]})


def plan_files(folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the plans of these folders: their own, those of the sweeps in them, or that of the sweep around them."""
    for folder in folders:
        places = [folder, *sorted(each for each in folder.iterdir() if each.is_dir()), folder.resolve().parent]
        yield from (place / PLAN for place in places if (place / PLAN).is_file())


def read_plan(file: Path) -> list[PlannedRun]:
    """Return the runs of a plan."""
    try:
        runs = read_json(file)["runs"]
        return [PlannedRun(str(run["digest"]), str(run["name"]), int(run["rounds"])) for run in runs]
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(f"{file} is no plan of runs that can be read: {error!r}") from error
