"""The command line. Commands that are read together share a file; PyTorch is imported when a command runs."""

from __future__ import annotations

import io
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Annotated

import click
import typer
import typer.core

from feddecorr import interrupts
from feddecorr.cli.console import Commands, escape_unprintable, print_text, say
from feddecorr.cli.data import data_app
from feddecorr.cli.diagnose import diagnose
from feddecorr.cli.export import export, records
from feddecorr.cli.flower import flower_app
from feddecorr.cli.list import list_configs
from feddecorr.cli.partition import convert_beta, partition, privacy
from feddecorr.cli.probe import probe
from feddecorr.cli.run import demo, resume, run
from feddecorr.cli.selftest import selftest
from feddecorr.cli.show import compare, figure, report, show, table, watch
from feddecorr.cli.sweep import sweep
from feddecorr.errors import SHORT_OF, RunError, UserError, explain_refusal

USER, FAILURE, INTERRUPTED = 2, 1, 130
"""Exit codes: for what the user must change, for a failure, and after Ctrl-C (128 + SIGINT)."""

ALLOCATOR = "can't allocate memory"
"""What PyTorch says, in an error of no kind of its own, where NumPy raises a MemoryError."""

typer.core.HAS_RICH = False  # help is plain text; otherwise it has backslashes before its brackets


app = typer.Typer(
    name="feddecorr",
    cls=Commands,
    help="See and cure dimensional collapse in heterogeneous federated learning.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    suggest_commands=False,  # click does so already
)


def print_version(wanted: bool) -> None:
    """Print the version and exit."""
    if wanted:
        print_text(f"feddecorr {version('feddecorr')}")
        raise typer.Exit


@app.callback()
def every_command(
    _: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and exit.")
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
app.command()(probe)
app.command()(partition)
app.command()(sweep)
app.command()(compare)
app.command()(table)
app.command()(figure)
app.command()(export)
app.command()(records)
app.command()(selftest)
app.command()(privacy)
app.command()(convert_beta)
app.command("list")(list_configs)
app.add_typer(data_app, name="data")
app.add_typer(flower_app, name="flower")


def main() -> None:
    """Run the command line; exit with 2 for what the user must change and with 1 for a failure."""
    warnings.showwarning = _say_warning  # type: ignore[assignment]  # its category and place are not shown
    escape_unprintable()
    with reported_failures():
        sys.exit(app(standalone_mode=False))


def _say_warning(message: Warning | str, *_: object) -> None:
    say(f"warning: {message}")


@contextmanager
def reported_failures() -> Iterator[None]:
    """Turn an exception into a message on standard error and an exit code; for a bug of ours, print the traceback."""
    try:
        yield
    except (KeyboardInterrupt, Exception) as error:
        if isinstance(error, KeyboardInterrupt) or interrupts.have_come():
            say("interrupted")
            sys.exit(INTERRUPTED)
        message, code = _explain(error)
        say(message)
        sys.exit(code)


def _explain_usage(error: click.ClickException) -> str:
    if isinstance(error, click.NoSuchOption) and (setting := _as_setting(error)) is not None:
        return f"error: {error.option_name} is no option but a setting, which has no dashes: {setting}"
    shown = io.StringIO()
    error.show(shown)
    said = shown.getvalue().rstrip().replace("a valid float", "a number").replace("a valid integer", "a whole number")
    return said.replace("in the range x>=", "at least ")


def _as_setting(error: click.NoSuchOption) -> str | None:
    """Return the setting that was said with dashes, where a command takes settings."""
    if error.ctx is None or all(parameter.name != "words" for parameter in error.ctx.command.params):
        return None
    from feddecorr.settings.short_keys import is_key

    option, equals, value = next(word for word in sys.argv if word.startswith(error.option_name)).partition("=")
    key = option.lstrip("-").replace("-", "_")
    if not equals:
        after = sys.argv[sys.argv.index(option) + 1 :]
        value = after[0] if after and not after[0].startswith("--") else "VALUE"
    return f"{key}={value}" if is_key(key) else None


def _explain(error: Exception) -> tuple[str, int]:
    match error:
        case click.ClickException():
            return _explain_usage(error), error.exit_code
        case UserError():
            return f"error: {error}", USER
        case RunError():
            cause = error.__cause__
            known = cause is None or isinstance(cause, OSError) or str(cause) in str(error)
            traced = "" if known else f"{cause}\n"
            return f"{traced}error: {error}", FAILURE
        case OSError():
            return f"error: {explain_refusal(error)}", FAILURE if error.errno in SHORT_OF else USER
        case MemoryError() | RuntimeError() if isinstance(error, MemoryError) or ALLOCATOR in str(error):
            advice = "free some, or use a smaller training.batch or fewer engine.workers"
            return f"error: there is not enough memory: {advice}", FAILURE
    return "".join(traceback.format_exception(error)).rstrip(), FAILURE
