"""How worker processes are started; light to import, so that it can happen while PyTorch is imported."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
from functools import cache
from multiprocessing import resource_tracker, util
from multiprocessing.context import ForkServerContext, SpawnContext

from feddecorr.core.temporary import own_folder

LONGEST = 75
"""Letters of a folder for sockets: multiprocessing adds 32, and the system takes 107."""


@cache
def context() -> ForkServerContext | SpawnContext:
    """Return the way to start processes.

    On Linux, workers are forked from a server process that has imported everything once: they start at once
    and share its memory. It begins with its imports now. Elsewhere forking is not safe, and each worker imports for
    itself.
    """
    if not sys.platform.startswith("linux"):
        return multiprocessing.get_context("spawn")
    expect_files()
    forkserver = multiprocessing.get_context("forkserver")
    forkserver.set_forkserver_preload(["feddecorr.config.options", "feddecorr.engines.preloaded"])
    _start_server()
    return forkserver


PIPES = 5
"""So many, each of two files, are opened for a moment to start a process."""


def expect_files() -> None:
    """Refuse to start a process where files would run out halfway: the other half would fail with a traceback."""
    held: list[int] = []
    try:
        for _ in range(PIPES):
            held += os.pipe()
    finally:
        for each in held:
            os.close(each)


def warm_up() -> None:
    """Let the server process begin with its imports now, before it is needed."""
    context()


def _start_server() -> None:
    """Start it deaf to Ctrl-C, as its workers will be: the main process decides what an interrupt means."""
    from multiprocessing.forkserver import ensure_running  # noqa: PLC0415 - not there on every platform

    resource_tracker.ensure_running()  # which hears Ctrl-C again when it has started: so it goes first
    _choose_folder()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _choose_folder() -> None:
    """Let multiprocessing keep its sockets where they are swept away if this process is killed."""
    if len(str(own_folder())) > LONGEST:
        return
    before, tempfile.tempdir = tempfile.tempdir, str(own_folder())
    try:
        util.get_temp_dir()
    finally:
        tempfile.tempdir = before
