"""A run's directory on its way to another machine: what has changed in it, as bytes, and how that is written there."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from feddecorr.core.paths import InnerPath
from feddecorr.runs.directory import LOCK, WEIGHTS

SHARE = 20
"""What is sent takes at most one part in so many of the time."""

LONGEST_PAUSE = 30.0
"""Seconds after which something is sent in any case: that the last time was slow may have been by chance."""


@dataclass(frozen=True)
class Changes:
    """Files of a run that are new or other than before, by their names, and those that are gone."""

    written: dict[str, bytes]
    removed: tuple[str, ...] = ()

    def apply(self, path: Path) -> None:
        """Write them into a directory, which is whole at every moment: the round counts with its weights, at last."""
        inside = InnerPath(path)
        for name in sorted(self.written, key=lambda name: name == WEIGHTS):
            file = InnerPath(path, tuple(name.split("/")))
            InnerPath(path, file.parts[:-1]).make()
            file.write(self.written[name])
        for name in self.removed:
            file = InnerPath(path, tuple(name.split("/")))
            file.remove()
            for depth in range(len(file.parts) - 1, 0, -1):
                InnerPath(inside.root, file.parts[:depth]).remove_if_empty()


class Outbox:
    """Notices what changes in a run's directory, between its rounds."""

    def __init__(self, path: Path, known: Changes | None = None) -> None:
        self._path = path
        self._seen: dict[str, tuple[int, int, int]] = {}
        self._sent, self._took = time.monotonic(), 0.0
        if known is not None:
            known.apply(path)
            self._seen = dict(self._look())

    def is_due(self, interval: float) -> bool:
        """Tell whether so many seconds have passed, and enough to spend on it."""
        return time.monotonic() - self._sent >= max(interval, min(SHARE * self._took, LONGEST_PAUSE))

    def changes(self) -> Changes:
        """Return what has changed since they were last asked for."""
        now = self._look()
        written = {name: self._file(name).read() for name, mark in now.items() if self._seen.get(name) != mark}
        removed = tuple(name for name in self._seen if name not in now)
        self._seen = now
        return Changes(written, removed)

    def note(self, began: float) -> None:
        """Take note of when sending began that has just ended."""
        self._sent = time.monotonic()
        self._took = self._sent - began

    def _file(self, name: str) -> InnerPath:
        return InnerPath(self._path, tuple(name.split("/")))

    def _look(self) -> dict[str, tuple[int, int, int]]:
        found = {}
        for file in InnerPath(self._path).tree():
            stat = file.stat()
            if file.name != LOCK and not file.unfinished and stat is not None:
                found["/".join(file.parts)] = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        return found
