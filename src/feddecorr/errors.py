"""The two ways in which a run ends early, and what a message says of a wrong name."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable


class UserError(ValueError):
    """Something the user must change; the message says what would be right."""


class RunError(RuntimeError):
    """A run cannot go on; the message names the client, the round and the cause, where there are such."""


def closest(wrong: str, right: Iterable[str]) -> str | None:
    """Return what was probably meant, if anything is like it."""
    names = sorted(right)
    close = difflib.get_close_matches(wrong, names, n=1) or difflib.get_close_matches(wrong.lower(), names, n=1)
    return next(iter(close), None)


def nearest(wrong: str, right: Iterable[str]) -> str:
    """Return a sentence that names what was probably meant, or all there is."""
    names = sorted(right)
    close = closest(wrong, names)
    if close is not None:
        return f"did you mean '{close}'?"
    return f"there are: {', '.join(names)}" if names else "there is nothing to choose from"


SHORT_OF: dict[int, str] = {
    errno.ENOSPC: "make room on that disk",
    errno.EDQUOT: "make room within your quota",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f)",
    errno.EMFILE: "raise the limit of open files (ulimit -n), or use fewer engine.workers",
    errno.ENFILE: "close other programs, or raise the system's limit of open files",
    errno.ENOMEM: "free memory, or use fewer engine.workers",
    errno.EAGAIN: "raise the limit of processes (ulimit -u), or use fewer engine.workers",
    errno.EIO: "see to that disk: it does not read or write",
}
"""What a machine can run out of, and what helps: none of it is the user's mistake."""


def too_many_files(error: Exception) -> str:
    """Say that a file could not be handed to another process: what is raised then has many forms, and one cause."""
    return f"{error} ({SHORT_OF[errno.EMFILE]})"


def explain_refusal(error: OSError) -> str:
    """Say what the system refused, of which file, and what helps."""
    said = error.strerror or str(error)
    hint = SHORT_OF.get(error.errno or 0)
    return (f"{error.filename}: {said}" if error.filename else said) + (f" ({hint})" if hint else "")
