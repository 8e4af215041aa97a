"""What a study is: a declared list of runs, and what to make of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from feddecorr.config.experiment import Experiment
from feddecorr.results.summary import Summary
from feddecorr.settings.options import RunOptions

if TYPE_CHECKING:
    import plotly.graph_objects as go

SCALES = ("paper", "small", "many", "smoke")
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
