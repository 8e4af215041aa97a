"""Temporary folders that are removed with their process; light to import, so that workers can start early."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from multiprocessing import util
from pathlib import Path

from feddecorr.core.paths import PASSING, InnerPath
from feddecorr.errors import UserError

LOCK = ".lock"

AT_LAST = -1000
"""After all that multiprocessing itself has to tidy up; in a fork, nothing is."""


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield an empty folder, which is removed afterwards."""
    with tempfile.TemporaryDirectory(dir=own_folder()) as folder:
        yield Path(folder)


def own_folder() -> Path:
    """Return the folder of this process, in which all others are."""
    return _folder_of(os.getpid())


@cache
def _folder_of(_process: int) -> Path:
    """Make the folder, and hold its lock for as long as the process lives; sweep first."""
    _sweep()
    while True:
        folder, stack = Path(tempfile.mkdtemp(prefix=PASSING)), ExitStack()
        is_there = stack.enter_context((InnerPath(folder) / LOCK).held())
        if is_there():  # else another process swept it away before it was locked
            break
        stack.close()

    def remove() -> None:
        stack.close()
        shutil.rmtree(folder, ignore_errors=True)

    util.Finalize(None, remove, exitpriority=AT_LAST)
    return folder


def _sweep() -> None:
    """Remove folders whose process is gone: nobody holds their lock any more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PASSING}*"):
        try:
            if folder.is_symlink() or folder.lstat().st_uid != os.getuid():
                continue
            if not (InnerPath(folder) / LOCK).exists():  # it is just being made
                continue
            with (InnerPath(folder) / LOCK).held():
                shutil.rmtree(folder)
        except (OSError, UserError):  # its process lives, or another one is sweeping, too
            continue
