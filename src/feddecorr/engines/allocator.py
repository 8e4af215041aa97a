"""The memory allocator of a whole process."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from functools import cache

HEAP = 1 << 29
"""Bytes of the heap that are to be huge pages."""


@cache
def keep_freed_memory() -> None:
    """Let glibc keep freed memory for the next step instead of returning it, and use huge pages for it.

    Training frees and takes the same hundreds of megabytes in every step; otherwise each step pays for page faults
    and small pages. Measured at 10–20 % of a step, and more with two processes at once. The results are the same.
    All threads take from the one heap: heaps of their own would have neither.
    Where there is no glibc, nothing is done. It holds for the whole process, from then on: who does not want that
    of a library sets the environment variable FEDDECORR_KEEP_MEMORY to 0.
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
    """Let glibc give back at once what it kept, because a large piece has been freed for good."""
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(ctypes.c_size_t(0))


def _glibc() -> ctypes.CDLL | None:
    libc = ctypes.CDLL(None) if sys.platform.startswith("linux") else None
    return libc if libc is not None and hasattr(libc, "malloc_trim") else None
