"""A tracker that lives outside of the package: a file of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from feddecorr.trackers import Tracker, TrackerEntry, TrackerLog


class Lines(Tracker):
    """A line of text for each call."""

    def open(self, folder: Path, *, name: str, digest: str, number: int) -> TrackerLog:
        """Open the file."""
        return Text(folder / "lines.txt")


class Text(TrackerLog):
    """Writes the lines."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def settings(self, flat: Mapping[str, Any]) -> None:
        """Write the method's name."""
        self._write(f"settings: {flat['method.name']}")

    def entry(self, entry: TrackerEntry) -> None:
        """Write the accuracy."""
        self._write(f"round {entry.round}: {entry.scalars.get('accuracy')}")

    def artifacts(self, files: Sequence[Path]) -> None:
        """Write their names."""
        self._write(f"artifacts: {', '.join(file.name for file in files)}")

    def close(self) -> None:
        """Write the end."""
        self._write("closed")

    def _write(self, line: str) -> None:
        with self._path.open("a") as file:
            file.write(f"{line}\n")
