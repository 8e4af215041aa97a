"""What all commands share: options, and output (results on standard output, everything else on standard error)."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click
import typer
import typer.core

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


VALUES = {"path": "PATH", "integer": "NUMBER", "integer range": "NUMBER", "float": "NUMBER"}
"""What the help calls an option's value, by its type; words by the option's name."""


class Commands(typer.core.TyperGroup):
    """A group of commands whose help says whole sentences, and leaves the lines of examples as they are."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; what is indented in its help is marked as click has it, so that it is not wrapped."""
        found = super().get_command(ctx, cmd_name)
        for option in found.params if found is not None else ():
            if isinstance(option, click.Option) and not option.is_flag and option.metavar is None:
                option.metavar = VALUES.get(option.type.name, str(option.name).upper())
        if found is not None:
            found.help = re.sub(r"\n\n(?=    )", "\n\n\b\n", found.help or "")
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command by its name; where none is like it, say which there are."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            said = error.format_message()
            if "Did you mean" in said:
                raise
            raise click.UsageError(f"{said} There are: {', '.join(self.list_commands(ctx))}.", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write all commands, each in as many lines as it takes."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.get_short_help_str(1000)) for name, each in found if each is not None])


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
