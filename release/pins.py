"""The versions that `locks` pins."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCKS = ROOT / "locks"
PINNED = re.compile(r"^([\w.-]+)==([^\s+]+)", re.MULTILINE)

Pins = dict[str, str]


def pins() -> Pins:
    """Return the version of every package that is locked, whichever build of it is installed."""
    return dict(pair for file in sorted(LOCKS.glob("*.txt")) for pair in PINNED.findall(file.read_text()))


def write_constraints(path: Path, versions: Pins) -> Path:
    """Write the versions alone: as constraints, pip takes no digests."""
    path.write_text("".join(f"{name}=={version}\n" for name, version in versions.items()))
    return path
