"""The one place where memory is shared with workers, and what is said where there is too little of it."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from feddecorr.errors import RunError, explain_refusal

PLACE = Path("/dev/shm")  # noqa: S108 - Linux's own, which PyTorch takes from
MB = 10**6
FULL = (errno.ENOSPC, errno.ENOMEM)


def shared_bytes(size: int) -> Tensor:
    """Return flat memory that other processes see."""
    with enough_shared_memory(size):
        flat = torch.empty(size, dtype=torch.uint8)
        flat.share_memory_()
        return flat


@contextmanager
def enough_shared_memory(need: int) -> Iterator[None]:
    """Say how many bytes were needed, and what helps, where PyTorch does not get them."""
    try:
        yield
    except RuntimeError as error:
        refused = re.search(r"shared memory.*\((\d+)\)$", str(error))
        if refused is None:
            raise
        number = int(refused[1])
        said = _shortage(need) if number in FULL else explain_refusal(OSError(number, os.strerror(number)))
        raise RunError(f"engine=pool shares {_count(need)} MB more with its workers: {said}") from None


def _shortage(need: int) -> str:
    advice = "use engine=serial, or fewer engine.workers"
    if not PLACE.is_dir():
        return f"there is too little shared memory; {advice}"
    total, used, free = shutil.disk_usage(PLACE)
    wanted = 64
    while wanted * MB < used + 4 * need:  # the same again for each of two workers, and some
        wanted *= 2
    room = f"make it larger (docker run --shm-size={wanted}m; mount -o remount,size={wanted}m {PLACE})"
    return f"{PLACE} has {_count(free)} of {_count(total)} MB left; {room}, or {advice}"


def _count(size: int) -> str:
    return f"{size / MB:.1f}"
