"""How far work has come, and how long the rest will take: of runs, of downloads, of the theory's studies.

A bar in a terminal, a line now and then elsewhere; on standard error.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, Self

from feddecorr.cli.console import messages, number, say
from feddecorr.core.text import one_line

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

SECONDS_BETWEEN_LINES = 3.0


class Progress:
    """Shows what it is told; with `silence`, only after so many seconds: what is quick needs no progress."""

    def __init__(self, *, silence: float = 0.0) -> None:
        self._loud = time.monotonic() + silence
        self._what = ""
        self._began = self._last_line = -math.inf
        self._done_before = 0.0
        self._bars: Bars | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def __call__(self, what: str, done: float, total: float, note: str = "") -> None:
        """Take what is being done, how much of it is done, and how much there is (0 if that can't be told).

        The note says how far that is; by default, in per cent.
        """
        now, what = time.monotonic(), one_line(what)
        if what != self._what:
            self._what, self._began, self._done_before = what, now, done
            self._last_line, self._task = -math.inf, None
        if now < self._loud:
            return
        if not total:
            say(what)
            return
        words = note or f"{100 * done / total:.0f} %"
        if self._done_before < done < total:
            words += f", {_duration((now - self._began) / (done - self._done_before) * (total - done))} left"
        if messages().is_terminal:
            self._bar(done, total, words)
        elif done >= total or now - self._last_line >= SECONDS_BETWEEN_LINES:
            say(f"{what}: {words}")
            self._last_line = now

    def _bar(self, done: float, total: float, words: str) -> None:
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - only in a terminal
        from rich.progress import Progress as Bars  # noqa: PLC0415

        if self._bars is None:
            name, place = (TextColumn(f"{{task.{key}}}", markup=False) for key in ("description", "fields[words]"))
            self._bars = Bars(name, BarColumn(bar_width=24), place, TimeElapsedColumn(), console=messages())
            self._bars.start()
        if self._task is None:
            self._task = self._bars.add_task(self._what, total=total, words=words)
        self._bars.update(self._task, completed=done, total=total, words=words)


class ShownRound(Protocol):
    """A round of a run, as far as it is shown."""

    @property
    def round(self) -> int:
        """Its number, from 1."""

    @property
    def accuracy(self) -> float | None:
        """None in a round that was not evaluated."""


def follow(records: Iterable[ShownRound], *, title: str, done: int, rounds: int) -> None:
    """Let a run go on to its end and show where it is."""
    accuracy = None
    with Progress() as progress:
        progress(title, done, rounds, f"round {done}/{rounds}")
        for record in records:
            accuracy = record.accuracy if record.accuracy is not None else accuracy
            place = f"round {record.round}/{rounds}, accuracy {number(accuracy, 3)}"
            progress(title, record.round, rounds, place)


def _duration(seconds: float) -> str:
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
