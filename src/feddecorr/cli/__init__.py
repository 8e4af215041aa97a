"""The command line: one module per group of commands, all speaking as `console` says."""

from __future__ import annotations

import sys
import warnings

import typer
import typer.core

from feddecorr.cli.claims import claims
from feddecorr.cli.compare import compare
from feddecorr.cli.console import say
from feddecorr.cli.convert_beta import convert_beta
from feddecorr.cli.data import data_app
from feddecorr.cli.demo import demo
from feddecorr.cli.diagnose import diagnose
from feddecorr.cli.export import export
from feddecorr.cli.figure import figure
from feddecorr.cli.flower import flower_app
from feddecorr.cli.list import list_kinds
from feddecorr.cli.partition import partition
from feddecorr.cli.records import records
from feddecorr.cli.report import report
from feddecorr.cli.reproduce import reproduce
from feddecorr.cli.resume import resume
from feddecorr.cli.run import run
from feddecorr.cli.show import show
from feddecorr.cli.sweep import sweep
from feddecorr.cli.table import table
from feddecorr.cli.theory import theory_app
from feddecorr.errors import RunError, UserError

typer.core.HAS_RICH = False  # help is plain text; otherwise it has backslashes before its brackets

app = typer.Typer(
    name="feddecorr",
    help="See and cure dimensional collapse in heterogeneous federated learning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(demo)
app.command()(run)
app.command()(resume)
app.command()(show)
app.command()(report)
app.command()(diagnose)
app.command()(claims)
app.command()(partition)
app.command()(reproduce)
app.command()(sweep)
app.command()(compare)
app.command()(table)
app.command()(figure)
app.command()(export)
app.command()(records)
app.command()(convert_beta)
app.command("list")(list_kinds)
app.add_typer(data_app, name="data")
app.add_typer(theory_app, name="theory")
app.add_typer(flower_app, name="flower")


def _say_warning(message: Warning | str, *_: object) -> None:
    """Say a warning in its own words, without the place in the code that gave it."""
    say(f"warning: {message}")


def main() -> None:
    """Run the command line; exit with 2 for what the user must change and with 1 for a failure."""
    warnings.showwarning = _say_warning  # type: ignore[assignment]  # where and of which kind does not matter
    try:
        app()
    except UserError as error:
        say(f"error: {error}")
        sys.exit(2)
    except RunError as error:
        if error.__cause__ is not None:
            say(str(error.__cause__))
        say(f"error: {error}")
        sys.exit(1)
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(130)
