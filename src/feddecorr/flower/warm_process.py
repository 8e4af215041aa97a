"""A process of a node that keeps PyTorch loaded; a fork of it handles each message.

Flower starts a process for every message, and importing PyTorch there takes longer than many a training: this process
cuts a round from 11 s to 6 s (benchmarks/flower_deployment.py), and Flower offers a warm executor only on Kubernetes.
A node's first message starts it, `python -m feddecorr.flower.warm_process FOLDER PARENT`; all message processes pass
their messages to it, over a socket in a folder that only the node's user can open. It ends with all its forks when the
node does, that is, when the process PARENT is gone, which starts the message processes.
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
from feddecorr.flower.payload import Payload

LOG = "log"
"""The file for its output."""

CONNECT_INTERVAL = 0.05
"""Seconds between two attempts to connect to a process that is starting."""

WATCH_INTERVAL = 1.0
"""Seconds between two checks whether the node is still running."""


def handle(action: str, payload: Payload, node_config: Mapping[str, Any]) -> tuple[str, bytes]:
    """Return the kind and the bytes of the reply by the node's warm process, which is started if necessary.

    The action is one of `handlers.HANDLERS`.
    """
    request = {"action": action, "config": payload.config, "node_config": dict(node_config)}
    with _connect(_folder(os.getppid())) as connection:
        connection.send_bytes(json.dumps(request).encode())
        connection.send_bytes(payload.content)
        try:
            return connection.recv_bytes().decode(), connection.recv_bytes()
        except EOFError as error:
            raise RunError("the process that trains on this node was killed") from error


def _folder(parent: int) -> Path:
    """Return the folder of a node's socket; raise if another user may have created it."""
    folder = Path(tempfile.gettempdir()) / f"feddecorr-node-{parent}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise UserError(f"{folder} is not a folder that only this user can open: remove it")
    return folder


def _connect(folder: Path) -> Connection:
    """Return a connection to the node's warm process; the first of several message processes starts it."""
    with FileLock(folder / "lock"):
        connection = _try_connect(folder)
        process = None if connection else _start(folder)
        while connection is None:
            if process is not None and process.poll() is not None:
                raise RunError(f"the process that trains on this node ended: {(folder / LOG).read_text()[-1000:]}")
            time.sleep(CONNECT_INTERVAL)
            connection = _try_connect(folder)
    return connection


def _try_connect(folder: Path) -> Connection | None:
    client = socket.socket(socket.AF_UNIX)
    try:
        client.connect(str(folder / "socket"))
    except OSError:
        client.close()
        return None
    return Connection(client.detach())


def _start(folder: Path) -> subprocess.Popen[bytes]:
    """Start it in its own session, since this process ends sooner; the app's own code is not on its path."""
    (folder / "socket").unlink(missing_ok=True)
    command = [sys.executable, "-P", "-m", "feddecorr.flower.warm_process", str(folder), str(os.getppid())]
    with (folder / LOG).open("wb") as log:
        return subprocess.Popen(  # noqa: S603 - our own
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


def main(folder: Path, parent: int) -> None:
    """Handle messages as long as the node is running."""
    from feddecorr.flower import handlers  # noqa: F401, PLC0415 - loads PyTorch, for all forks

    gc.freeze()
    os.umask(0o077)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        listener.listen()
        listener.settimeout(WATCH_INTERVAL)
        while _is_running(parent):
            _reap()
            try:
                accepted, _ = listener.accept()
            except TimeoutError:
                continue
            if os.fork() == 0:
                _handle(accepted)
            accepted.close()
    shutil.rmtree(folder, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


def _is_running(process: int) -> bool:
    """Return whether a process is running; a zombie is not."""
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _reap() -> None:
    """Reap forks that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _handle(accepted: socket.socket) -> None:
    """Handle one message in this fork, and end it."""
    from feddecorr.flower.handlers import HANDLERS  # noqa: PLC0415 - already loaded

    try:
        accepted.setblocking(True)
        with Connection(accepted.detach()) as connection:
            request, content = json.loads(connection.recv_bytes()), connection.recv_bytes()
            payload = Payload(content, request["config"])
            kind, reply = HANDLERS[request["action"]](payload, request["node_config"])
            connection.send_bytes(kind.encode())
            connection.send_bytes(reply)
    finally:
        os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
