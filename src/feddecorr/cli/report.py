"""The command that compares runs on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from feddecorr.cli.console import JsonOption, print_json, print_text


def report(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Directories of runs to compare.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file to write.")] = Path("report.html"),
    json: JsonOption = False,
) -> None:
    """Compare any number of runs in one HTML page that needs no network.

    Example:  feddecorr report runs/a runs/b -o report.html
    """
    from feddecorr.report.runs_page import write_report  # noqa: PLC0415 - plotly is loaded when it is needed

    write_report(directories, out)
    if json:
        print_json({"report": str(out.resolve())})
    else:
        print_text(str(out.resolve()))
