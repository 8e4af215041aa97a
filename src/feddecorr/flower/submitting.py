"""`flwr run` with an honest end: its own exit code says nothing of how the run ended."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from feddecorr.errors import RunError, UserError

STARTED = re.compile(r"Successfully started run (\d+)")


def submit(directory: Path, superlink: str | None, say: Callable[[str], None]) -> str:
    """Run an app to its end, handing on its log line by line; return what the SuperLink says of the end.

    Interrupted, it stops the run on the SuperLink, where it would else go on with nobody watching.
    """
    if not (directory / "pyproject.toml").is_file():
        raise UserError(f"{directory} holds no Flower app (no pyproject.toml): 'feddecorr flower app {directory}'")
    where = [superlink] if superlink else []
    again = f"'feddecorr flower run {' '.join([str(directory), *where])}' goes on from the last finished round"
    process = subprocess.Popen(  # noqa: S603 - Flower's own program
        [_flwr(), "run", str(directory), *where, "--stream"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # an interrupt at the terminal is for this process alone
    )
    number = None
    try:
        for line in process.stdout or ():
            say(line.rstrip())
            if found := STARTED.search(line):
                number = found[1]
    except KeyboardInterrupt:
        if number is not None:
            say(_stop(number, where, again))
        raise
    finally:
        process.kill()
        process.communicate()
    if number is None:
        raise RunError("Flower did not start the run")
    status = _status(number, where)
    if status is None:
        raise RunError(f"the SuperLink does not say how run {number} ended: when it is there again, {again}")
    return status


def _stop(number: str, where: Sequence[str], again: str) -> str:
    """Stop a run, and return what there is to say of it."""
    answer = _ask("stop", number, *where)
    if answer is not None and answer.get("success"):
        return f"run {number} is stopped: {again}"
    by_hand = " ".join(["flwr", "stop", number, *where])
    return f"run {number} may go on, for the SuperLink did not take the stop: '{by_hand}' tries again"


def _status(number: str, where: Sequence[str]) -> str | None:
    answer = _ask("ls", *where, "--run-id", number)
    try:
        return None if answer is None else str(answer["runs"][0]["status"])
    except (LookupError, TypeError):
        return None


def _ask(*words: str) -> dict[str, Any] | None:
    """Return what a command of Flower says; None where it says nothing that can be read."""
    asked = [_flwr(), *words, "--format", "json"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, start_new_session=True)  # noqa: S603
    try:
        return dict(json.loads(done.stdout))
    except (ValueError, TypeError):
        return None


def _flwr() -> str:
    beside = Path(sys.executable).parent / "flwr"
    found = str(beside) if beside.exists() else shutil.which("flwr")
    if found is None:
        raise UserError("there is no program flwr: pip install 'feddecorr[flower]'")
    return found
