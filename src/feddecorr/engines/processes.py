"""Starting worker processes; light to import, so that they can start while PyTorch is being imported."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
from functools import cache
from multiprocessing import resource_tracker, util
from multiprocessing.context import ForkServerContext, SpawnContext

from feddecorr.core.files import own_folder

MAX_PATH = 75
"""Length of a folder for sockets: multiprocessing adds 32 characters, and the system allows 107."""


@cache
def context() -> ForkServerContext | SpawnContext:
    """Return the multiprocessing context.

    On Linux, workers are forked from a fork server that has imported everything once: they start immediately and
    share its memory. Its imports begin now. Elsewhere forking is not safe, and each worker does its own imports.
    """
    if not sys.platform.startswith("linux"):
        return multiprocessing.get_context("spawn")
    require_open_files()
    forkserver = multiprocessing.get_context("forkserver")
    forkserver.set_forkserver_preload(["feddecorr.settings.options", "feddecorr.engines.preloaded"])
    _start_server()
    return forkserver


PIPES = 5
"""Pipes, of two files each, that starting a process opens for a moment."""


def require_open_files() -> None:
    """Raise early if starting a process would run out of open files, which would end in a traceback halfway."""
    held: list[int] = []
    try:
        for _ in range(PIPES):
            held += os.pipe()
    finally:
        for each in held:
            os.close(each)


def warm_up() -> None:
    """Start the fork server's imports now, before it is needed."""
    context()


def _start_server() -> None:
    """Start the fork server with SIGINT blocked, also for its workers: the main process handles interrupts."""
    from multiprocessing.forkserver import ensure_running  # noqa: PLC0415 - not there on every platform

    resource_tracker.ensure_running()  # first, since starting it unblocks SIGINT
    _choose_folder()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _choose_folder() -> None:
    """Put multiprocessing's sockets into a folder that is cleaned up if this process is killed."""
    if len(str(own_folder())) > MAX_PATH:
        return
    before, tempfile.tempdir = tempfile.tempdir, str(own_folder())
    try:
        util.get_temp_dir()
    finally:
        tempfile.tempdir = before
