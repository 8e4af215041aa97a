"""The process of a node that keeps PyTorch loaded: the same answers, for this user alone, and gone with the node."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from sites import federated, write_sites

from feddecorr.flower.node import handle
from feddecorr.flower.payload import Payload

MESSAGE = """
import hashlib, json, sys
from feddecorr.flower.payload import Payload
from feddecorr.flower.warm_process import handle
kind, content = handle("query", Payload(open(sys.argv[1], "rb").read(), {}), json.loads(sys.argv[2]))
assert "torch" not in sys.modules
print(kind, hashlib.sha256(content).hexdigest())
"""
"""What Flower starts for a message."""

NODE = """
import subprocess, sys
for _ in range(2):
    print(subprocess.run([sys.executable, "-c", *sys.argv[1:]], capture_output=True, text=True), flush=True)
sys.stdin.read()
"""
"""What stands for Flower's node: two messages, and then it lives on."""


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Return a folder for temporary files with a short name, in which nothing is left."""
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        yield Path(folder)


def warm_processes(folder: Path) -> list[psutil.Process]:
    """Return the processes that keep PyTorch for a node."""
    return [each for each in psutil.process_iter() if str(folder) in _words(each)]


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_it_answers_as_the_node_itself_would_and_ends_with_it(tmp_path: Path, temporary: Path) -> None:
    config = write_sites(tmp_path, {0: ["red", "green"]})[100]
    question = json.dumps(federated().experiment.to_dict()).encode()
    (tmp_path / "question").write_bytes(question)
    kind, content = handle("query", Payload(question, {}), config)
    node = subprocess.Popen(
        [sys.executable, "-c", NODE, MESSAGE, tmp_path / "question", json.dumps(config)],
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert node.stdout is not None
        expected = f"{kind} {hashlib.sha256(content).hexdigest()}"
        assert expected in node.stdout.readline()
        folder = temporary / f"feddecorr-node-{node.pid}"
        first = warm_processes(folder)
        assert expected in node.stdout.readline()
        assert warm_processes(folder) == first
        assert len(first) == 1
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "socket")]
        assert (modes[0], modes[1] & 0o077) == (0o700, 0)
    finally:
        node.kill()
        node.communicate()
    end = time.monotonic() + 300
    while bool(warm_processes(folder)) or any(temporary.iterdir()):
        assert time.monotonic() < end
        time.sleep(0.2)


def test_a_folder_that_others_could_open_is_refused(tmp_path: Path, temporary: Path) -> None:
    (temporary / f"feddecorr-node-{os.getpid()}").mkdir(mode=0o755)
    (tmp_path / "question").write_bytes(b"{}")
    done = subprocess.run(
        [sys.executable, "-c", MESSAGE, tmp_path / "question", "{}"],
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "is not a folder that only this user can open" in done.stderr
