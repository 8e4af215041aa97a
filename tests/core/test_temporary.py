"""Whatever the end of a process, its temporary files go: with it, or at the next start of another."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from small import write_settings

SCRIPT = """
import sys, time
from feddecorr.core.temporary import temporary_folder
with temporary_folder() as folder:
    (folder / "file").write_text("x")
    print(folder, flush=True)
    if sys.argv[1] == "wait":
        time.sleep(600)
"""


def start(tmp_path: Path, word: str) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, word],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_what_a_killed_process_left_is_swept_away_and_what_a_living_one_has_is_not(tmp_path: Path) -> None:
    killed, left = start(tmp_path, "wait")
    living, kept = start(tmp_path, "wait")
    killed.kill()
    killed.communicate()
    assert (left / "file").exists()
    done, _ = start(tmp_path, "end")
    done.communicate()
    assert done.returncode == 0
    assert not left.parent.exists()
    assert (kept / "file").exists()
    living.kill()
    living.communicate()
    assert [path.name for path in tmp_path.iterdir()] == [kept.parent.name]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forkserver")
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT, None])
def test_a_pool_run_leaves_nothing_however_it_ends(tmp_path: Path, ending: signal.Signals | None) -> None:
    """Neither in the temporary folder nor on the screen; a killed one until the next start."""
    temporary = Path(tempfile.mkdtemp(prefix="t"))  # with a short name: sockets lie there
    write_settings(tmp_path / "small.json")
    environment = {**os.environ, "TMPDIR": str(temporary)}

    def begin(rounds: int) -> subprocess.Popen[str]:
        words = ["small.json", "engine=pool", "engine.workers=2", f"rounds={rounds}", "--out", f"run{rounds}"]
        return subprocess.Popen(
            [sys.executable, "-m", "feddecorr", "run", *words], cwd=tmp_path, env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    process = begin(1 if ending is None else 100_000)
    if ending is not None:
        while not list(temporary.glob("feddecorr-*/pymp-*/listener-*")) and process.poll() is None:
            time.sleep(0.005)
        time.sleep(0.3)  # its workers are still importing
        os.killpg(process.pid, ending) if ending == signal.SIGINT else process.kill()
    _, said = process.communicate(timeout=120)
    assert process.returncode == {None: 0, signal.SIGINT: 130, signal.SIGKILL: -9}[ending]
    assert "Traceback" not in said
    if ending == signal.SIGKILL:
        after = begin(2)
        after.communicate(timeout=120)
        assert after.returncode == 0
    temporary.rmdir()  # which is possible if it is empty


def test_a_planted_lock_leads_nowhere(tmp_path: Path) -> None:
    """What looks like a folder that was left, with a link in place of its lock, is neither locked nor swept away."""
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / "feddecorr-tmp-planted").mkdir()
    (tmp_path / "feddecorr-tmp-planted" / ".lock").symlink_to(precious)
    done, _ = start(tmp_path, "end")
    done.communicate()
    assert done.returncode == 0
    assert precious.read_text() == "mine"
    assert (tmp_path / "feddecorr-tmp-planted").exists()
