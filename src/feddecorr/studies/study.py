"""A study: a declared list of runs, and what to make of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from feddecorr.settings.experiment import Experiment
from feddecorr.studies.summary import Summary

if TYPE_CHECKING:
    import plotly.graph_objects as go

SCALES = ("paper", "small", "smoke")

Labels = dict[str, str | int | float]


@dataclass(frozen=True)
class Arm:
    """One run of a study: the words that tell it apart in tables, and its experiment (seed included)."""

    labels: Labels
    experiment: Experiment


@dataclass(frozen=True)
class Result:
    """What came of an arm; no summary where the run is missing or failed."""

    labels: Labels
    summary: Summary | None


@dataclass(frozen=True)
class Table:
    """A table of words, as it is printed."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class Figure:
    """A figure, drawn when it is asked for."""

    title: str
    draw: Callable[[], go.Figure]
    note: str = ""


Finding = Table | Figure


class Study(Protocol):
    """What the runner and the command line ask of a study."""

    name: str
    shows: str
    place: str

    def arms(self, scale: str, seeds: int) -> list[Arm]:
        """Return all runs of the study at that scale, for the seeds from 0."""
        ...

    def findings(self, results: Sequence[Result], scale: str) -> list[Finding]:
        """Return tables and figures; what is missing is shown as missing."""
        ...
