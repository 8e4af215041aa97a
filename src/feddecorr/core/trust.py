"""Whose code is imported: names that a user gives are looked up, names in files only if these are trusted."""

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

_own_folders: dict[str, None] = {}
"""Working directories in which names that a person said were looked for, in that order."""


@dataclass(frozen=True)
class Trust:
    """Which names of the form `package.module:attribute` may be imported, of settings that come from a file.

    `said` are those that the person has said here and now: only they are looked up in the working directory, too.
    With `files`, all others are imported from where Python finds its packages. Under `closed`, nothing is imported
    at all: the settings are only looked at.
    """

    said: frozenset[str] = frozenset()
    files: bool = False
    closed: bool = False

    def allows(self, name: str) -> bool:
        """Return whether a name that a file holds may be imported."""
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
    """Return what `package.module:attribute` names; without `trust`, a person or a program has named it."""
    module = name.partition(":")[0]
    if trust is None or name in trust.said:
        if module not in sys.modules:
            _own_folders[str(Path.cwd())] = None
        with own_modules_found():
            return _get(name)
    if not trust.allows(name):
        raise UserError(
            f"'{name}' is code from outside this package, named by a file: it is imported only if you name it "
            f"yourself, with --trust (in Python, trust=True), or with {VARIABLE}={module.partition('.')[0]} in the "
            f"environment{_if_here(module)}"
        )
    return _get(name, f"; names in files are not looked up in the working directory{_if_here(module)}")


def _if_here(module: str) -> str:
    """Say what to add where a module is found in the working directory alone, which may be a stranger's."""
    top = module.partition(".")[0]
    here = next((entry for entry in (Path(f"{top}.py"), Path(top)) if entry.exists()), None)
    return f"; if {here} here is yours and is meant, put PYTHONPATH=. before the command" if here else ""


@contextmanager
def own_modules_found() -> Iterator[None]:
    """Search the working directories of names that a person said, too, after all others.

    For one import, or for the start of a process that is to find the same modules: it takes over `sys.path`.
    """
    added = [folder for folder in _own_folders if folder not in sys.path]
    sys.path += added
    try:
        yield
    finally:
        sys.path[:] = [place for place in sys.path if place not in added]


def own_search_path() -> str:
    """Return, as PYTHONPATH has it, where this user's own modules are: for processes of another machine."""
    return os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), *_own_folders]))


def _get(name: str, hint: str = "") -> Any:
    module, _, attribute = name.partition(":")
    try:
        return attrgetter(attribute)(importlib.import_module(module))
    except Exception as error:  # whatever a user's module raises
        missing = isinstance(error, ModuleNotFoundError)
        raise UserError(f"'{name}' cannot be imported: {error}{hint if missing else ''}") from error
