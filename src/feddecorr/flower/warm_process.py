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
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from multiprocessing.connection import Client, Connection
from pathlib import Path
from socketserver import BaseRequestHandler, ForkingMixIn, UnixStreamServer
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
    """Return the reply of `node.handle` in the node's warm process, which is started if necessary."""
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
    process = None
    with FileLock(folder / "lock"):
        while True:
            try:
                return Client(str(folder / "socket"))
            except OSError:
                process = process or _start(folder)
            if process.poll() is not None:
                raise RunError(f"the process that trains on this node ended: {(folder / LOG).read_text()[-1000:]}")
            time.sleep(CONNECT_INTERVAL)


def _start(folder: Path) -> subprocess.Popen[bytes]:
    """Start it in its own session, since this process ends sooner; the app's own code is not on its path."""
    (folder / "socket").unlink(missing_ok=True)
    command = [sys.executable, "-P", "-m", "feddecorr.flower.warm_process", str(folder), str(os.getppid())]
    with (folder / LOG).open("wb") as log:
        return subprocess.Popen(  # noqa: S603 - our own
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


class WarmServer(ForkingMixIn, UnixStreamServer):
    """Handles each message in a fork, as long as the node is running."""

    def __init__(self, folder: Path, parent: int) -> None:
        self._folder, self._parent = folder, parent
        super().__init__(str(folder / "socket"), ForkedHandler)

    def service_actions(self) -> None:
        """Reap forks that have ended; end everything if the node has."""
        super().service_actions()
        if not _is_running(self._parent):
            shutil.rmtree(self._folder, ignore_errors=True)
            os.killpg(0, signal.SIGKILL)


class ForkedHandler(BaseRequestHandler):
    """Handles one message."""

    def handle(self) -> None:
        """Read the message and send the reply."""
        from feddecorr.flower import node  # noqa: PLC0415 - already loaded

        with Connection(self.request.detach()) as connection:
            request, content = json.loads(connection.recv_bytes()), connection.recv_bytes()
            payload = Payload(content, request["config"])
            kind, reply = node.handle(request["action"], payload, request["node_config"])
            connection.send_bytes(kind.encode())
            connection.send_bytes(reply)


def _is_running(process: int) -> bool:
    """Return whether a process is running; a zombie is not."""
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def main(folder: Path, parent: int) -> None:
    """Load PyTorch, for all forks, and handle messages."""
    from feddecorr.flower import node  # noqa: F401, PLC0415 - loads PyTorch

    gc.freeze()
    os.umask(0o077)
    with WarmServer(folder, parent) as server:
        server.serve_forever(WATCH_INTERVAL)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
