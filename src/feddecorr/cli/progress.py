"""Live progress of a run: a bar in a terminal, a line now and then elsewhere; on standard error."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from feddecorr.cli.console import messages, number, say

if TYPE_CHECKING:
    from feddecorr.runs.record import Record

SECONDS_BETWEEN_LINES = 2.0


def follow(records: Iterable[Record], *, title: str, done: int, rounds: int) -> None:
    """Let a run go on to its end and show where it is."""
    if messages().is_terminal:
        _bar(records, title, done, rounds)
    else:
        _lines(records, title, done, rounds)


def _bar(records: Iterable[Record], title: str, done: int, rounds: int) -> None:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("round {task.completed}/{task.total}  accuracy {task.fields[accuracy]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=messages()) as progress:
        task = progress.add_task(title, total=rounds, completed=done, accuracy="–")
        for record in records:
            progress.update(task, completed=record.round)
            if record.accuracy is not None:
                progress.update(task, accuracy=number(record.accuracy, 3))


def _lines(records: Iterable[Record], title: str, done: int, rounds: int) -> None:
    started = last = time.monotonic()
    for record in records:
        now = time.monotonic()
        if now - last >= SECONDS_BETWEEN_LINES or record.round == rounds:
            left = (now - started) / (record.round - done) * (rounds - record.round)
            accuracy = number(record.accuracy, 3)
            say(f"{title}: round {record.round}/{rounds}, accuracy {accuracy}, {left:.0f} s left")
            last = now
