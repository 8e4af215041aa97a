"""Live progress of many runs: a bar in a terminal, a line now and then elsewhere; on standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from feddecorr.cli.console import messages, say
from feddecorr.core.text import one_line

if TYPE_CHECKING:
    from feddecorr.sweeps.status import Status, Tell

SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def follow_runs(title: str) -> Iterator[Tell]:
    """Show how far many runs are, as often as it is told."""
    if not messages().is_terminal:
        yield _PlainProgress(title)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.completed}/{task.total} runs{task.fields[rest]}", markup=False),
        TimeElapsedColumn(),
        TextColumn("left {task.fields[left]}"),
    )
    with Progress(*columns, console=messages(), refresh_per_second=2) as progress:
        task = progress.add_task(one_line(title), total=None, rest="", left="–")

        def tell(status: Status) -> None:
            done = status.done + status.failed
            progress.update(task, completed=done, total=status.total, rest=_rest(status), left=duration(status.left))

        yield tell


class _PlainProgress:
    def __init__(self, title: str) -> None:
        self._title = title
        self._said = -1
        self._last = 0.0

    def __call__(self, status: Status) -> None:
        now, done = monotonic(), status.done + status.failed
        finished = done == status.total
        if now - self._last < SECONDS_BETWEEN_LINES and not (finished and done != self._said):
            return
        left = "" if finished or status.left is None else f"; {duration(status.left)} left"
        say(f"{self._title}: {status.done} of {status.total} runs done{_rest(status)}{left}")
        self._said, self._last = done, now


def _rest(status: Status) -> str:
    """Say what else is to be known, besides how many are done."""
    parts = [f"{run.name} in round {run.round} of {run.rounds}" for run in status.running]
    if status.failed:
        parts.insert(0, f"{status.failed} failed")
    if status.elsewhere:
        parts.append(f"{status.elsewhere} by another process")
    if status.short_of_memory:
        parts.append("memory allows no more at once")
    return one_line("".join(f", {part}" for part in parts))


def duration(seconds: float | None) -> str:
    """Return a time in the one or two units that matter."""
    if seconds is None:
        return "–"
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    if minutes < 90:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes / 60 / 24:.1f} days"
