"""How many threads compute: a part of the result's last bits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def hands(count: int) -> int:
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
