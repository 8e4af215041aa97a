"""How much memory there is for a further run, and how much a run takes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

ASSUMED = 1 << 30
"""Bytes that a run is taken to need before the first of them has said what it needs."""

MEMINFO = Path("/proc/meminfo")
GROUP = Path("/sys/fs/cgroup")
STATUS = Path("/proc/self/status")


def available_memory(meminfo: Path = MEMINFO, group: Path = GROUP) -> int | None:
    """Return the bytes that can still be taken without swapping; None where the system does not say.

    Linux says it; in a container, what its limit leaves counts if it is less. Elsewhere memory is not watched.
    """
    known = [found for found in (_of_machine(meminfo), _of_group(group)) if found is not None]
    return min(known, default=None)


def _of_machine(meminfo: Path) -> int | None:
    return next(iter(_sizes(meminfo, "MemAvailable")), None)


def _sizes(file: Path, name: str) -> list[int]:
    """Return the number of bytes that a file of `name: N kB` lines gives for a name, if it does."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return []
    return [int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")]


def _of_group(group: Path) -> int | None:
    """Return what a control group's limit leaves; pages of files that it could drop count as free."""
    try:
        limit, used = (group / "memory.max").read_text(), (group / "memory.current").read_text()
        lines = (group / "memory.stat").read_text().splitlines()
    except OSError:
        return None
    if not limit.strip().isdigit():  # "max": no limit
        return None
    droppable = next((int(line.split()[1]) for line in lines if line.startswith("inactive_file ")), 0)
    return int(limit) - int(used) + droppable


def peak_memory(status: Path = STATUS) -> int:
    """Return the most bytes that this process ever had; 0 where the system does not say."""
    return next(iter(_sizes(status, "VmHWM")), 0)


class MemoryWatch:
    """Knows the most that any run needed, and whether there is room for one more."""

    def __init__(self) -> None:
        self._most = 0
        self.short = False

    def learn(self, peak: int) -> None:
        """Take note of the peak of a run."""
        self._most = max(self._most, peak)

    def is_short(self, running: Iterable[int], *, kept: int = 0) -> bool:
        """Tell whether there is no room for one more run next to those that have these peaks so far.

        They may all still grow to the largest peak ever seen. The process that would do it has `kept` of its own.
        A run that would be alone always has room.
        """
        need = self._most or ASSUMED
        growing = [max(0, need - peak) for peak in running]
        available = available_memory()
        self.short = bool(growing) and available is not None and available - sum(growing) < need - kept
        return self.short
