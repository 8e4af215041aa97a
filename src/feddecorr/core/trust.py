"""Whose code is run: names that a person says are looked up, names that a file holds only where it is trusted."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from feddecorr.errors import UserError

VARIABLE = "FEDDECORR_TRUST"
"""The environment variable that lists packages (with commas between) whose code files may name; `*` is all of them."""

_looked_up: set[str] = set()
"""Working directories that were put on Python's path for names that a person said."""


@dataclass(frozen=True)
class Trust:
    """Which names of the form `package.module:attribute` may be imported, of settings that come from a file.

    `said` are those that the person has said here and now: only they are looked for in the working directory, too.
    With `files`, all others are imported from where Python finds its packages. Under `closed`, nothing is imported
    at all: the settings are only looked at.
    """

    said: frozenset[str] = frozenset()
    files: bool = False
    closed: bool = False

    def allows(self, name: str) -> bool:
        """Tell whether a name that a file holds may be imported."""
        allowed = os.environ.get(VARIABLE, "").split(",")
        module = name.partition(":")[0]
        return (
            self.files
            or "*" in allowed
            or any(module == package or module.startswith(f"{package}.") for package in allowed if package)
        )


STRANGER = Trust()
"""Trust in a file that anybody may have written."""

CLOSED = Trust(closed=True)
"""For settings that are only looked at."""


def import_named(name: str, trust: Trust | None = None) -> Any:
    """Return what `package.module:attribute` names; without `trust`, a person or a program has said so itself."""
    module = name.partition(":")[0]
    if trust is None or name in trust.said:
        here = str(Path.cwd())
        if module not in sys.modules and here not in sys.path:
            sys.path.append(here)
            _looked_up.add(here)
        return _get(name)
    if not trust.allows(name):
        raise UserError(
            f"'{name}' is code of somebody's own that a file names: it is imported only if you say the name yourself, "
            f"with --trust (in Python, trust=True), or with {VARIABLE}={module.partition('.')[0]} in the environment"
        )
    with _elsewhere():
        return _get(name, "; what files name is not looked for in the working directory, unless you say the name")


def _get(name: str, hint: str = "") -> Any:
    module, _, attribute = name.partition(":")
    try:
        return attrgetter(attribute)(importlib.import_module(module))
    except Exception as error:  # whatever a user's module raises
        missing = isinstance(error, ModuleNotFoundError)
        raise UserError(f"'{name}' cannot be imported: {error}{hint if missing else ''}") from error


@contextmanager
def _elsewhere() -> Iterator[None]:
    """Keep the working directory out of the search for a while: the sender of a run may have put a module there."""
    before = sys.path[:]
    sys.path[:] = [place for place in before if place not in _looked_up]
    try:
        yield
    finally:
        sys.path[:] = before
