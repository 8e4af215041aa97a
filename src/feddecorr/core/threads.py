"""How many threads compute: a part of the result's last bits."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

GAIN = 0.68
"""To this power of their number, threads make a client faster: 1.6 times with two (`benchmarks/threads.py`)."""


def threads_for(cohort: int, cores: int) -> int:
    """Return the threads of one client with which a round of that many clients, equal in size, is done first.

    By counting: a division into more workers than there are clients leaves cores idle, and so does the last of
    several turns in which fewer clients are left than workers.
    """

    def speed(count: int) -> float:
        turns = math.ceil(cohort / (cores // count))
        return float(cohort / turns * count**GAIN)

    return max(range(1, cores + 1), key=speed)


def parallel_jobs(count: int) -> int:
    """Return how many pieces of work, each of that many threads, keep all cores busy."""
    return max(1, (os.cpu_count() or 1) // count)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Compute with that many threads for a while: sums depend on it in their last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
