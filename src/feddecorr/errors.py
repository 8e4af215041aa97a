"""The two ways in which a run ends early, and what a message says of a wrong name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Something the user must change; the message says what would be right."""


class RunError(RuntimeError):
    """A run cannot go on; the message names the client, the round and the cause, where there are such."""


def nearest(wrong: str, right: Iterable[str]) -> str:
    """Return a sentence that names what was probably meant, or all there is."""
    names = sorted(right)
    close = difflib.get_close_matches(wrong, names, n=1, cutoff=0.5)
    return f"did you mean '{close[0]}'?" if close else f"there are: {', '.join(names) or 'none'}"
