"""Temporary folders that go with their process: those of a killed one are removed at the next start of another."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from multiprocessing import util
from pathlib import Path

from filelock import FileLock, Timeout

PREFIX = "feddecorr-tmp-"
LOCK = ".lock"

AT_LAST = -1000
"""After all that multiprocessing itself has to tidy up; in a fork, nothing is."""


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Give an empty folder for a while."""
    with tempfile.TemporaryDirectory(dir=own_folder()) as folder:
        yield Path(folder)


def passes(path: Path) -> bool:
    """Tell whether a file is in a temporary folder, of this process or of another: it need not survive anything."""
    return str(path).startswith(f"{tempfile.gettempdir()}{os.sep}{PREFIX}")


def own_folder() -> Path:
    """Return the folder of this process, in which all others are."""
    return _folder_of(os.getpid())


@cache
def _folder_of(_process: int) -> Path:
    """Make the folder, and hold its lock for as long as the process lives; sweep first."""
    _sweep()
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = FileLock(folder / LOCK)
        lock.acquire()
        if (folder / LOCK).exists():  # else another process swept it away before it was locked
            break

    def remove() -> None:
        lock.release()
        shutil.rmtree(folder, ignore_errors=True)

    util.Finalize(None, remove, exitpriority=AT_LAST)
    return folder


def _sweep() -> None:
    """Remove folders whose process is gone: nobody holds their lock any more."""
    for lock in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{LOCK}"):
        try:
            if lock.parent.is_symlink() or (os.name == "posix" and lock.stat().st_uid != os.getuid()):
                continue
            with FileLock(lock, timeout=0):
                shutil.rmtree(lock.parent)
        except (OSError, Timeout):  # its process lives, or another one is sweeping, too
            continue
