"""Starting worker processes, and the memory allocator of one; light to import, while PyTorch is being imported."""

from __future__ import annotations

import ctypes
import mmap
import multiprocessing
import os
import signal
import sys
import tempfile
from functools import cache
from multiprocessing import resource_tracker, util
from multiprocessing.context import ForkServerContext, SpawnContext

from feddecorr.core.temporary import own_folder

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


WORKER = "feddecorr-worker"
"""The name of a worker process."""

UNGUARDED = 78
"""The exit code of a worker that was to start a run while it imported the script that had started it."""


def end_unguarded_worker() -> None:
    """End this process if it is a worker that only imports the script of the process that started it."""
    process = multiprocessing.current_process()
    if process.name == WORKER and getattr(process, "_inheriting", False):
        os._exit(UNGUARDED)


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


HEAP = 1 << 29
"""Bytes of the heap to back with huge pages."""


@cache
def keep_freed_memory() -> None:
    """Let glibc keep freed memory for the next step, in huge pages, instead of returning it.

    Training frees and allocates the same hundreds of megabytes in every step; otherwise each step pays for page
    faults and small pages: 10–20 % of a step, and more with two processes. Results are the same. All threads share one
    heap, since these settings do not apply to further arenas. Without glibc, nothing happens. The settings stay for
    the life of the process; the environment variable FEDDECORR_KEEP_MEMORY=0 disables them.
    """
    libc = _glibc()
    if libc is None or os.environ.get("FEDDECORR_KEEP_MEMORY") == "0":
        return
    trim_threshold, top_pad, mmap_max, arena_max = -1, -2, -4, -8  # the parameters' numbers in <malloc.h>
    libc.mallopt(arena_max, 1)
    libc.mallopt(mmap_max, 0)
    libc.mallopt(trim_threshold, 1 << 30)
    libc.mallopt(top_pad, 1 << 24)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    start = libc.malloc(HEAP)  # address space only, until it is written to
    if start:
        page, huge = mmap.PAGESIZE, 14  # MADV_HUGEPAGE
        aligned = -(-start // page) * page
        libc.madvise(aligned, HEAP - page, huge)
        libc.free(start)


def return_freed_memory() -> None:
    """Return freed memory to the system now, after a large block was freed for good."""
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(ctypes.c_size_t(0))


def _glibc() -> ctypes.CDLL | None:
    libc = ctypes.CDLL(None) if sys.platform.startswith("linux") else None
    return libc if libc is not None and hasattr(libc, "malloc_trim") else None
