"""Flower apps of our experiments: write one, and run it with an exit code that says how the run ended."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feddecorr.core.limits import read_plain
from feddecorr.core.paths import InnerPath
from feddecorr.errors import RunError, UserError

if TYPE_CHECKING:
    from feddecorr.config.experiment import Experiment
    from feddecorr.settings.options import RunOptions

CLIENT_APP = "feddecorr.flower.client_app:app"
SERVER_APP = "feddecorr.deployment.server_app:app"
NAME, APP_FILE = "feddecorr-app", "pyproject.toml"
STARTED = re.compile(r"Successfully started run (\d+)")


def write_app(folder: Path, experiment: Experiment, options: RunOptions, *, out: Path, test: str) -> None:
    """Write a thin Flower app: a pyproject.toml with our components and the experiment, no code.

    `rounds` is a separate entry, so that `--run-config rounds=N` extends a run. The app lists no dependencies:
    Flower would install those over the present ones.
    """
    _refuse_used(folder)
    config: dict[str, str | int] = {"out": str(out), "test": test, "rounds": options.rounds}
    config["experiment"] = json.dumps({**experiment.to_dict(), **options.to_dict()})
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        "[project]",
        f'name = "{NAME}"',
        'version = "1.0.0"',
        'description = "A federation of feddecorr, which must be installed where this runs"',
        'license = "Apache-2.0"',
        "dependencies = []",
        "",
        "[tool.flwr.app]",
        'publisher = "feddecorr"',
        "",
        "[tool.flwr.app.components]",
        f'serverapp = "{SERVER_APP}"',
        f'clientapp = "{CLIENT_APP}"',
        "",
        "[tool.flwr.app.config]",
        *(f"{name} = {json.dumps(value)}" for name, value in config.items()),
    ]
    (InnerPath(folder) / APP_FILE).write(("\n".join(lines) + "\n").encode())


def _refuse_used(folder: Path) -> None:
    """Refuse a folder that holds anything but an app of ours: Flower sends all of an app's files to every node."""
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        if file.name != APP_FILE or not _is_ours(file):
            raise UserError(f"{folder} holds '{file.name}', which is no part of such an app: choose a new folder")


def _is_ours(file: Path) -> bool:
    try:
        return bool(tomllib.loads(read_plain(file).decode())["project"]["name"] == NAME)
    except (OSError, ValueError, LookupError, TypeError, UserError):
        return False


def run_app(directory: Path, superlink: str | None, log: Callable[[str], None]) -> str:
    """Run an app with `flwr run`, passing on its log; return the final status, which its exit code does not show.

    An interrupt also stops the run on the SuperLink, where it would otherwise continue unattended.
    """
    if not (directory / APP_FILE).is_file():
        raise UserError(f"{directory} is not a Flower app (no {APP_FILE}): 'feddecorr flower app {directory}'")
    where = [superlink] if superlink else []
    resume = f"'feddecorr flower run {' '.join([str(directory), *where])}' continues from the last finished round"
    process = subprocess.Popen(  # noqa: S603 - Flower's own program
        [_flwr_program(), "run", str(directory), *where, "--stream"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # an interrupt at the terminal reaches only this process
    )
    number = None
    try:
        for line in process.stdout or ():
            log(line.rstrip())
            if found := STARTED.search(line):
                number = found[1]
    except KeyboardInterrupt:
        if number is not None:
            log(_stop(number, where, resume))
        raise
    finally:
        process.kill()
        process.communicate()
    if number is None:
        raise RunError("Flower did not start the run")
    try:
        return str(_flwr("ls", *where, "--run-id", number)["runs"][0]["status"])
    except (LookupError, TypeError):
        raise RunError(f"the SuperLink does not report how run {number} ended: when it is back, {resume}") from None


def _stop(number: str, where: Sequence[str], resume: str) -> str:
    """Stop a run; return a message for the user."""
    if _flwr("stop", number, *where).get("success"):
        return f"run {number} is stopped: {resume}"
    by_hand = " ".join(["flwr", "stop", number, *where])
    return f"run {number} may still be running, since the SuperLink did not stop it: '{by_hand}' tries again"


def _flwr(*arguments: str) -> dict[str, Any]:
    """Return the output of a flwr command; nothing if it is not a JSON object."""
    command = [_flwr_program(), *arguments, "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, start_new_session=True)  # noqa: S603
    try:
        return dict(json.loads(done.stdout))
    except (ValueError, TypeError):
        return {}


def _flwr_program() -> str:
    sibling = Path(sys.executable).parent / "flwr"
    found = str(sibling) if sibling.exists() else shutil.which("flwr")
    if found is None:
        raise UserError("the program flwr is not installed: pip install 'feddecorr[flower]'")
    return found
