"""The one place where a command ends early: every failure in a sentence, with the exit code that it deserves."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from feddecorr.cli.console import say
from feddecorr.errors import SHORT_OF, RunError, UserError, explain_refusal

USER, FAILURE, INTERRUPTED = 2, 1, 130
"""Exit codes: for what the user must change, for what went wrong, and after Ctrl-C (128 + SIGINT)."""


@contextmanager
def told_failures() -> Iterator[None]:
    """Turn what ends a command into a line on standard error and an exit code."""
    try:
        yield
    except UserError as error:
        _end(str(error), USER)
    except RunError as error:
        if error.__cause__ is not None and not isinstance(error.__cause__, OSError):
            say(str(error.__cause__))
        _end(str(error), FAILURE)
    except OSError as error:
        _end(explain_refusal(error), FAILURE if error.errno in SHORT_OF else USER)
    except MemoryError:
        _end("there is not enough memory: free some, or use a smaller training.batch or fewer engine.workers", FAILURE)
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(INTERRUPTED)


def _end(message: str, code: int) -> None:
    say(f"error: {message}")
    sys.exit(code)
