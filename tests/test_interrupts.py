"""Ctrl-C ends a command at any moment of its start, also where an import would swallow it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small import write_settings

SWALLOWING = """
import sys, time
print("importing", flush=True)
try:
    time.sleep(float(sys.argv[2]))
except BaseException:
    pass
"""

SCRIPT = """
import sys, time
from feddecorr import interrupts
interrupts.wait_for_imports()
interrupts.PATIENCE = float(sys.argv[1])
sys.path.append("."); import swallowing
print("imported", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(("patience", "seconds"), [(60, 0.5), (0, 60)])
def test_an_interrupt_waits_for_the_end_of_an_import_but_not_for_ever(
    tmp_path: Path, patience: float, seconds: float
) -> None:
    """Without patience it comes at once, and the import swallows it, which is what the waiting is for."""
    (tmp_path / "swallowing.py").write_text(SWALLOWING)
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(patience), str(seconds)], cwd=tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    if not patience:
        assert process.stdout.readline() == "imported\n"
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=50)
    assert said.strip().endswith("KeyboardInterrupt")


@pytest.mark.parametrize("moment", [0.2, 0.8])
def test_a_command_ends_by_ctrl_c_while_it_starts(tmp_path: Path, moment: float) -> None:
    write_settings(tmp_path / "small.json")
    start = "from feddecorr.__main__ import main; print('go', flush=True); main()"
    process = subprocess.Popen(
        [sys.executable, "-c", start, "run", "small.json", "rounds=100000"], cwd=tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    time.sleep(moment)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
