"""A process of a node that has PyTorch loaded; a fork of it answers each message.

Flower starts a process for every message, and importing PyTorch takes longer there than many a training. So the first
one of a node starts this process, `python -m feddecorr.flower.warm FOLDER PARENT`, and all hand on their messages to
it, over a socket in a folder that only the node's user can open. It ends, with all that it does, when the node does:
when the process PARENT is gone, by which Flower starts those of the messages.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
from filelock import FileLock

from feddecorr.errors import RunError, UserError
from feddecorr.flower.envelope import Letter

LOG = "log"
"""The file for what it prints."""

PAUSE = 0.05
"""Seconds between two attempts to reach a process that starts."""

WATCH = 1.0
"""Seconds between two looks at whether the node is still there."""


def answer(question: str, letter: Letter, config: Mapping[str, Any]) -> tuple[str, bytes]:
    """Return the kind and the bytes of the answer that the node's warm process gives; start it if it is not there.

    The question is one of `playing.QUESTIONS`, the configuration that of the node.
    """
    with _connect(_folder(os.getppid())) as line:
        line.send_bytes(json.dumps({"question": question, "note": letter.note, "config": dict(config)}).encode())
        line.send_bytes(letter.content)
        try:
            return line.recv_bytes().decode(), line.recv_bytes()
        except EOFError as error:
            raise RunError("the process that trains on this node was killed") from error


def _folder(parent: int) -> Path:
    """Return the folder of a node's socket, or refuse one that another user may have made."""
    folder = Path(tempfile.gettempdir()) / f"feddecorr-node-{parent}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise UserError(f"{folder} is not a folder that only this user can open: remove it")
    return folder


def _connect(folder: Path) -> Connection:
    """Return a connection to the node's warm process; one of several that come first starts it."""
    with FileLock(folder / "lock"):
        line = _reach(folder)
        process = None if line else _start(folder)
        while line is None:
            if process is not None and process.poll() is not None:
                raise RunError(f"the process that trains on this node ended: {(folder / LOG).read_text()[-1000:]}")
            time.sleep(PAUSE)
            line = _reach(folder)
    return line


def _reach(folder: Path) -> Connection | None:
    line = socket.socket(socket.AF_UNIX)
    try:
        line.connect(str(folder / "socket"))
    except OSError:
        line.close()
        return None
    return Connection(line.detach())


def _start(folder: Path) -> subprocess.Popen[bytes]:
    """Start it apart from this process, which ends sooner; what an app brought along is not on its path."""
    (folder / "socket").unlink(missing_ok=True)
    command = [sys.executable, "-P", "-m", "feddecorr.flower.warm", str(folder), str(os.getppid())]
    with (folder / LOG).open("wb") as log:
        return subprocess.Popen(  # noqa: S603 - our own
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


def main(folder: Path, parent: int) -> None:
    """Answer messages as long as the node is there."""
    from feddecorr.flower import playing  # noqa: F401, PLC0415 - which loads PyTorch, for all forks

    gc.freeze()
    os.umask(0o077)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        listener.listen()
        listener.settimeout(WATCH)
        while _is_there(parent):
            _reap()
            try:
                line, _ = listener.accept()
            except TimeoutError:
                continue
            if os.fork() == 0:
                _answer(line)
            line.close()
    shutil.rmtree(folder, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


def _is_there(process: int) -> bool:
    """Tell whether a process is there; one that has ended and waits for its parent is not."""
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _reap() -> None:
    """Take note of forks that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _answer(line: socket.socket) -> None:
    """Answer one message in this fork, and end it."""
    from feddecorr.flower import playing  # noqa: PLC0415 - is there

    try:
        line.setblocking(True)
        with Connection(line.detach()) as connection:
            asked, content = json.loads(connection.recv_bytes()), connection.recv_bytes()
            kind, answered = playing.QUESTIONS[asked["question"]](Letter(content, asked["note"]), asked["config"])
            connection.send_bytes(kind.encode())
            connection.send_bytes(answered)
    finally:
        os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
