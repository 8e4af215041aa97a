"""Another system's processes under a supervisor, which ends all of them when this process ends or is killed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from feddecorr.core.trust import VARIABLE, own_modules_found
from feddecorr.errors import UserError

SUPERVISOR = Path(__file__).with_name("supervisor.py")

MAX_PATH = 40
"""Length of the folder's path: Ray's sockets lie deep in it, and a socket's path has at most 107 characters."""

LOG_LINES = 30
"""Lines of each log that are shown when the system fails."""


@dataclass(frozen=True)
class Supervised:
    """A module that is about to run: a folder of its own, which goes with it, and the connection to it."""

    connection: Connection
    home: Path
    _process: subprocess.Popen[str]

    def start(self) -> None:
        """Run the module."""
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def logs(self) -> str:
        """Return how its logs end."""
        logs = [file.read_text(errors="replace").splitlines()[-LOG_LINES:] for file in sorted(self.home.glob("*.log"))]
        return "\n".join(line for log in logs for line in log)


@contextmanager
def supervised(module: str, *, cluster: bool = False) -> Iterator[Supervised]:
    """Prepare to run `python -m MODULE HOME SOCKET`; leaving the context ends all that came of it.

    Ray is one of its own, on the loopback and with a token of its own, unless the module joins a `cluster`: then it
    keeps what the environment says of Ray.
    """
    ours, theirs = socket.socketpair()
    with own_modules_found():
        search_path = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    process = subprocess.Popen(  # noqa: S603 - our own
        [sys.executable, "-P", str(SUPERVISOR), module, str(theirs.fileno()), *["cluster"] * cluster],
        pass_fds=[theirs.fileno()],
        env={
            **os.environ,
            "PYTHONPATH": search_path,
            VARIABLE: "*",  # the user has named all of its code
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # an interrupt at the terminal reaches only this process
    )
    theirs.close()
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    connection = Connection(ours.detach())
    try:
        home = Path(process.stdout.readline().rstrip("\n"))  # which the supervisor created, and will remove
        if not cluster and len(str(home)) > MAX_PATH:
            raise UserError(f"Ray needs a shorter folder for temporary files than {home.parent}: set TMPDIR")
        yield Supervised(connection, home, process)
    finally:
        connection.close()
        process.communicate()  # closes its standard input, on which the supervisor ends everything and exits
