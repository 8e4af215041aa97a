"""Progress on standard error: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Protocol, Self

from feddecorr.cli.console import messages, percent, say
from feddecorr.core.text import one_line

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from feddecorr.sweeps.status import Status, Tell


class Progress:
    """Shows the progress of some work, after `silence` seconds and then a line every `interval` seconds."""

    def __init__(self, *, silence: float = 0.0, interval: float = 3.0) -> None:
        self._loud = time.monotonic() + silence
        self._interval = interval
        self._what = self._last_words = ""
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
        """Show how much of the total is done (0 if the total is unknown), and estimate the time left.

        The note is shown in place of the percentage.
        """
        now, left = time.monotonic(), None
        if one_line(what) != self._what:
            self._began, self._done_before = now, done
        if self._done_before < done < total:
            left = (now - self._began) / (done - self._done_before) * (total - done)
        if total:
            self.show(what, done, total, note or f"{100 * done / total:.0f} %", left)
        elif now >= self._loud:
            say(what)

    def show(self, what: str, done: float, total: float, words: str, left: float | None) -> None:
        """Show the words, and the seconds left where they are known."""
        now, what = time.monotonic(), one_line(what)
        if what != self._what:
            self._what, self._last_line, self._task = what, -math.inf, None
        if now < self._loud:
            return
        if left is not None:
            words += f", {duration(left)} left"
        if messages().is_terminal:
            self._bar(done, total, words)
        elif (done >= total and words != self._last_words) or now - self._last_line >= self._interval:
            say(f"{what}: {words}")
            self._last_line, self._last_words = now, words

    def _bar(self, done: float, total: float, words: str) -> None:
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        if self._bars is None:
            name, place = (TextColumn(f"{{task.{key}}}", markup=False) for key in ("description", "fields[words]"))
            self._bars = Bars(name, BarColumn(bar_width=24), place, TimeElapsedColumn(), console=messages())
            self._bars.start()
        if self._task is None:
            self._task = self._bars.add_task(self._what, total=total, words=words)
        self._bars.update(self._task, completed=done, total=total, words=words)


class ShownRound(Protocol):
    """The displayed fields of a round."""

    @property
    def round(self) -> int:
        """Its number, from 1."""

    @property
    def accuracy(self) -> float | None:
        """None in a round that was not evaluated."""


def follow(
    records: Iterable[ShownRound],
    *,
    title: str,
    done: int,
    rounds: int,
    trained: Callable[[], float] | None = None,
) -> None:
    """Let a run finish, and show its progress; `trained` returns how many rounds are trained by now, in parts."""
    with Progress() as progress:
        shown = ShownRun(progress, title, done, rounds, trained)
        with shown.within_rounds():
            for record in records:
                shown.finish(record)


TICK = 1.0
"""Seconds between two looks at a round in progress."""

SHARE = 20
"""Where lines are printed, the next one about a round in progress comes after so much of the time that has passed."""


class ShownRun:
    """The progress of a run, which a thread follows within rounds."""

    def __init__(
        self, progress: Progress, title: str, done: int, rounds: int, trained: Callable[[], float] | None
    ) -> None:
        self._progress, self._title, self._done, self._rounds = progress, title, done, rounds
        self._trained = trained
        self._before = trained() if trained else 0.0
        self._accuracy: float | None = None
        self._lock, self._ended = Lock(), Event()
        self._began = self._last = time.monotonic()
        progress(title, done, rounds, f"round {done}/{rounds}")

    def finish(self, record: ShownRound) -> None:
        """Show a round that is done."""
        with self._lock:
            self._accuracy = record.accuracy if record.accuracy is not None else self._accuracy
            self._done, self._before = record.round, self._trained() if self._trained else 0.0
            place = f"round {record.round}/{self._rounds}, accuracy {percent(self._accuracy)}"
            self._progress(self._title, record.round, self._rounds, place)

    @contextmanager
    def within_rounds(self) -> Iterator[None]:
        """Poll the round in progress."""
        thread = Thread(target=self._watch, daemon=True)
        if self._trained:
            thread.start()
        try:
            yield
        finally:
            self._ended.set()
            if self._trained:
                thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(TICK):
            self.look()

    def look(self) -> None:
        """Show how far the round in progress is, from its first step on."""
        with self._lock:
            now = time.monotonic()
            share = min((self._trained() if self._trained else 0.0) - self._before, 1.0)
            often = messages().is_terminal or now - self._last >= (now - self._began) / SHARE
            if not (share > 0 and often and self._done < self._rounds):
                return
            self._last = now
            place = f"round {self._done + 1}/{self._rounds}, {100 * share:.0f} % of it"
            if self._accuracy is not None:
                place += f", accuracy {percent(self._accuracy)}"
            self._progress(self._title, self._done + share, self._rounds, place)


@contextmanager
def follow_runs(title: str) -> Iterator[Tell]:
    """Show the progress of many runs, whenever their status is reported."""
    with Progress(interval=10.0) as progress:

        def tell(status: Status) -> None:
            done = status.done + status.failed
            left = status.left if done < status.total else None
            progress.show(title, done, status.total, _describe(status), left)

        yield tell


def _describe(status: Status) -> str:
    parts = [f"{status.done} of {status.total} runs done"]
    if status.failed:
        parts.append(f"{status.failed} failed")
    parts += [f"{run.name} in round {run.round} of {run.rounds}" for run in status.running]
    if status.elsewhere:
        parts.append(f"{status.elsewhere} by another process")
    if status.short_of_memory:
        parts.append("memory allows no more at once")
    return one_line(", ".join(parts))


def duration(seconds: float) -> str:
    """Format a time in the one or two units that matter."""
    minutes = round(seconds / 60)
    if seconds < 120:
        return f"{seconds:.0f} s"
    if minutes < 120:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    days = minutes / 60 / 24
    return f"{days:.1f} days" if days < 1000 else f"{days / 365:.0f} years"
