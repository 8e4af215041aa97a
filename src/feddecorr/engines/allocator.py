"""Settings of the memory allocator, for a whole process."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from functools import cache

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
