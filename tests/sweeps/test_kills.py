"""A study that is killed again and again, with all of its processes and at random moments, is as good as any."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from command_line import CommandLine
from own_studies import outcome

HELPERS = Path(__file__).parents[1] / "helpers"
STUDY = ("reproduce", "own_studies:Own", "--scale", "small", "--seeds", "2")
KILLS = 2


def start(out: Path) -> subprocess.Popen[bytes]:
    path = os.pathsep.join([str(HELPERS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-m", "feddecorr", *STUDY, "--out", str(out)],
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def rounds(out: Path) -> int:
    """Return how many rounds of all runs were ever written down."""
    return sum(file.read_bytes().count(b"\n") for file in out.glob("runs/*/rounds.jsonl"))


def everything(out: Path) -> dict[str, Any]:
    """Return the runs, without their times, and all results but the page, in which plotly names things at random."""
    results = {file.name: file.read_text() for file in [out / "own.md", *sorted((out / "own").iterdir())]}
    return {"runs": outcome(out / "runs"), "results": results}


def test_a_study_that_is_killed_at_random_ends_like_one_that_never_was(feddecorr: CommandLine, tmp_path: Path) -> None:
    chance = random.Random(2)
    for _ in range(KILLS):
        before = rounds(tmp_path / "killed")
        process = start(tmp_path / "killed")
        while rounds(tmp_path / "killed") == before and process.poll() is None:
            time.sleep(0.01)
        time.sleep(chance.uniform(0.0, 0.5))
        with suppress(ProcessLookupError):  # on a busy machine it may be done already
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert start(tmp_path / "killed").wait(timeout=600) == 0
    assert feddecorr(*STUDY, "--out", tmp_path / "never").code == 0
    assert everything(tmp_path / "killed") == everything(tmp_path / "never")
