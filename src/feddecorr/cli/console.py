"""What all commands share: options, and output (results on standard output, everything else on standard error)."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from feddecorr.core.text import one_line, visible
from feddecorr.errors import RunError

if TYPE_CHECKING:
    from rich.console import Console

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document instead of text; shares such as accuracy are fractions.")
]

TrustOption = Annotated[
    bool, typer.Option("--trust", help="Import the code that files name. Only for files from people you trust.")
]
Words = Annotated[
    list[str] | None, typer.Argument(metavar="[FILE.toml] [KEY=VALUE]...", help="Settings; later ones win.")
]


def escape_unprintable() -> None:
    """Print characters that the terminal's encoding lacks as escapes, where Python would raise."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            with suppress(OSError):  # a replaced stream has an encoding of its own
                stream.reconfigure(errors="backslashreplace")


@cache
def messages() -> Console:
    """Return the console on standard error, for progress and messages."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)


def say(text: str) -> None:
    """Print a message on standard error."""
    messages().print(visible(text))


def print_json(document: Any) -> None:
    """Print a command's one JSON document."""
    print_text(json.dumps(document, indent=2, allow_nan=False).replace("\x7f", "\\u007f"))


def print_result(text: str, document: Any, *, json: bool) -> None:
    """Print a result: the document with --json, otherwise the text."""
    if json:
        print_json(document)
    else:
        print_text(text)


def print_text(text: str) -> None:
    """Print a result as text."""
    if sys.stdout is None:
        raise RunError("standard output is closed: there is nowhere to print the result")
    sys.stdout.write(visible(text) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a result into a file, in one step, and print where it is."""
    from feddecorr.core.files import write_bytes

    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, text.encode())
    print_text(str(path.resolve()))


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    """Print a table: drawn in a terminal, aligned columns elsewhere."""
    headings, rows = list(map(one_line, headings)), [list(map(one_line, row)) for row in rows]
    if title:
        print_text(one_line(title))
    if sys.stdout is not None and sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table()
        for place, heading in enumerate(headings):
            table.add_column(Text(heading), overflow="fold", no_wrap=place == 0)  # names are whole, for copying
        for row in rows:
            table.add_row(*map(Text, row))
        Console().print(table)
        return
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    for row in (headings, *rows):
        print_text("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def number(value: float | None, digits: int = 4) -> str:
    """Format a number for a table; a dash for what was not measured."""
    return "–" if value is None else f"{value:.{digits}f}" if isinstance(value, float) else str(value)


def percent(share: float | None) -> str:
    """Format a share for a reader; a dash for what was not measured."""
    return number(None if share is None else 100.0 * share, 1) + " %" * (share is not None)
