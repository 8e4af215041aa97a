"""The command line: one module per group of commands, all speaking as `console` says."""

from __future__ import annotations

import sys
import warnings
from importlib.metadata import version
from typing import Annotated

import typer
import typer.core

from feddecorr.cli.compare import compare
from feddecorr.cli.console import print_text, say, write_all_letters
from feddecorr.cli.convert_beta import convert_beta
from feddecorr.cli.data import data_app
from feddecorr.cli.demo import demo
from feddecorr.cli.diagnose import diagnose
from feddecorr.cli.export import export
from feddecorr.cli.failing import told_failures
from feddecorr.cli.figure import figure
from feddecorr.cli.flower import flower_app
from feddecorr.cli.list import list_configs
from feddecorr.cli.partition import partition
from feddecorr.cli.privacy import privacy
from feddecorr.cli.records import records
from feddecorr.cli.report import report
from feddecorr.cli.resume import resume
from feddecorr.cli.run import run
from feddecorr.cli.show import show
from feddecorr.cli.sweep import sweep
from feddecorr.cli.table import table
from feddecorr.cli.watch import watch

typer.core.HAS_RICH = False  # help is plain text; otherwise it has backslashes before its brackets

app = typer.Typer(
    name="feddecorr",
    help="See and cure dimensional collapse in heterogeneous federated learning.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    suggest_commands=False,  # the library below it does so already
)


def tell_version(wanted: bool) -> None:
    """Print the version and end."""
    if wanted:
        print_text(f"feddecorr {version('feddecorr')}")
        raise typer.Exit


@app.callback()
def every_command(
    _: Annotated[
        bool, typer.Option("--version", callback=tell_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """See and cure dimensional collapse in heterogeneous federated learning."""


app.command()(demo)
app.command()(run)
app.command()(resume)
app.command()(show)
app.command()(report)
app.command()(watch)
app.command()(diagnose)
app.command()(partition)
app.command()(sweep)
app.command()(compare)
app.command()(table)
app.command()(figure)
app.command()(export)
app.command()(records)
app.command()(privacy)
app.command()(convert_beta)
app.command("list")(list_configs)
app.add_typer(data_app, name="data")
app.add_typer(flower_app, name="flower")


def _say_warning(message: Warning | str, *_: object) -> None:
    """Say a warning in its own words, without the place in the code that gave it."""
    say(f"warning: {message}")


def main() -> None:
    """Run the command line; exit with 2 for what the user must change and with 1 for a failure."""
    warnings.showwarning = _say_warning  # type: ignore[assignment]  # where and of which kind does not matter
    write_all_letters()
    with told_failures():
        sys.exit(app(standalone_mode=False))
