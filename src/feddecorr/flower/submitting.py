"""`flwr run` with an honest end: its own exit code says nothing of how the run ended."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from feddecorr.errors import RunError, UserError

STARTED = re.compile(r"Successfully started run (\d+)")


def submit(directory: Path, superlink: str | None, say: Callable[[str], None]) -> str:
    """Run an app to its end, handing on its log line by line; return what the SuperLink says of the end."""
    if not (directory / "pyproject.toml").is_file():
        raise UserError(f"{directory} holds no Flower app (no pyproject.toml): 'feddecorr flower app {directory}'")
    where = [superlink] if superlink else []
    process = subprocess.Popen(  # noqa: S603 - Flower's own program
        [_flwr(), "run", str(directory), *where, "--stream"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    number = None
    with process:
        for line in process.stdout or ():
            say(line.rstrip())
            if found := STARTED.search(line):
                number = found[1]
    if number is None:
        raise RunError("Flower did not start the run")
    return _status(number, where)


def _status(number: str, where: Sequence[str]) -> str:
    asked = [_flwr(), "ls", *where, "--run-id", number, "--format", "json"]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False)  # noqa: S603
    try:
        return str(json.loads(answer.stdout)["runs"][0]["status"])
    except (ValueError, LookupError, TypeError) as error:
        raise RunError(f"Flower does not say how the run ended: {answer.stdout}{answer.stderr}") from error


def _flwr() -> str:
    beside = Path(sys.executable).parent / "flwr"
    found = str(beside) if beside.exists() else shutil.which("flwr")
    if found is None:
        raise UserError("there is no program flwr: pip install 'feddecorr[flower]'")
    return found
