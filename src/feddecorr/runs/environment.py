"""What else could matter for a run's last bits: versions, the source's commit, the machine."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any


def environment() -> dict[str, Any]:
    """Return all of it, ready for JSON."""
    packages = ("feddecorr", "torch", "numpy", "safetensors")
    return {
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
        "commit": _commit(),
        "platform": platform.platform(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
    }


def _commit() -> str | None:
    """Return the commit of the source tree, with a plus sign if it was changed since; None outside of one."""
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)  # noqa: S603 - fixed words
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
