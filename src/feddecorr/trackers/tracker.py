"""The base of all trackers, and what they receive of a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from feddecorr.core.registry import Config


@dataclass(frozen=True)
class TrackerEntry:
    """A round as a tracker receives it: numbers by name, and spectra."""

    round: int
    scalars: dict[str, float]
    spectra: dict[str, Sequence[float]]


class TrackerLog(ABC):
    """The log of one run, where the tracker's own tools find it."""

    @abstractmethod
    def settings(self, flat: Mapping[str, Any]) -> None:
        """Log the settings, by dotted names; called once, before the first round."""

    @abstractmethod
    def entry(self, entry: TrackerEntry) -> None:
        """Log a round."""

    @abstractmethod
    def artifacts(self, files: Sequence[Path]) -> None:
        """Keep files of the run; called once, when all rounds are done."""

    @abstractmethod
    def close(self) -> None:
        """Write what is still buffered."""


class Tracker(Config):
    """An experiment tracker, chosen by `trackers=NAME`; its library is loaded when a run opens it."""

    past: ClassVar[str] = ""
    """A pattern of folder names that it never writes to again; links in them, to its own logs, are left alone."""

    def open(self, folder: Path, *, name: str, digest: str, number: int) -> TrackerLog:
        """Open the log of a run in that folder, or where the tracker's own settings say.

        It is opened again whenever a run continues; `number` is the last round that it received before.
        """
        raise NotImplementedError
