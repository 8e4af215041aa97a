"""What every record of a benchmark says of itself: the command and where it ran."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from feddecorr.runs.directory import environment


def command() -> str:
    """Return the command that runs now."""
    return shlex.join(["python", *sys.orig_argv[1:]])


def write_record(file: Path, found: Mapping[str, Any]) -> None:
    """Write what was found, after the command and the environment."""
    file.parent.mkdir(parents=True, exist_ok=True)
    record = {"command": command(), "environment": environment(), **found}
    file.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
