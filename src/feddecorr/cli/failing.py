"""The one place where a command ends early: every failure in a sentence, with the exit code that it deserves."""

from __future__ import annotations

import io
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import click

from feddecorr import interrupts
from feddecorr.cli.console import say
from feddecorr.errors import SHORT_OF, RunError, UserError, explain_refusal

USER, FAILURE, INTERRUPTED = 2, 1, 130
"""Exit codes: for what the user must change, for what went wrong, and after Ctrl-C (128 + SIGINT)."""


@contextmanager
def told_failures() -> Iterator[None]:
    """Turn what ends a command into a line on standard error and an exit code; of a fault of ours, into a traceback."""
    try:
        yield
    except (KeyboardInterrupt, Exception) as error:
        if isinstance(error, KeyboardInterrupt) or interrupts.have_come():
            say("interrupted")
            sys.exit(INTERRUPTED)
        _explain(error)


def _explain(error: Exception) -> NoReturn:
    match error:
        case click.ClickException():
            said = io.StringIO()
            error.show(said)
            say(said.getvalue().rstrip())
            sys.exit(error.exit_code)
        case UserError():
            _end(str(error), USER)
        case RunError():
            if error.__cause__ is not None and not isinstance(error.__cause__, OSError):
                say(str(error.__cause__))
            _end(str(error), FAILURE)
        case OSError():
            _end(explain_refusal(error), FAILURE if error.errno in SHORT_OF else USER)
        case MemoryError():
            advice = "free some, or use a smaller training.batch or fewer engine.workers"
            _end(f"there is not enough memory: {advice}", FAILURE)
    say("".join(traceback.format_exception(error)).rstrip())
    sys.exit(FAILURE)


def _end(message: str, code: int) -> NoReturn:
    say(f"error: {message}")
    sys.exit(code)
