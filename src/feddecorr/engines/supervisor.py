"""The process that runs a module and ends all that comes of it, however the run ends: `supervisor.py MODULE SOCKET`.

It exists because Ray's processes survive a driver that was killed (kill -9), and no setting of Ray or Flower ends them.
It creates a folder, prints its name, and runs MODULE on it when it reads a line; SOCKET is the descriptor by which
MODULE talks to the run; with `cluster` as a third word, MODULE joins a cluster of Ray that is there. It lives as long
as its standard input is open. When the run closes that or dies, or when the
module is done, it kills all its descendants, orphans included, and removes the folder. It imports nothing of this
package, so it runs on its own and starts fast.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil


def main(module: str, connection: int, *, cluster: bool) -> None:
    """Run the module on a new folder, and clean up."""
    signal.signal(signal.SIGTERM, _close)
    if sys.platform.startswith("linux"):  # become the parent of orphaned descendants, so that none escapes
        set_child_subreaper = 36  # its number in <linux/prctl.h>
        ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)
    home = Path(tempfile.mkdtemp(prefix="fd-"))
    try:
        sys.stdout.write(f"{home}\n")
        sys.stdout.flush()
        _pause(None)
        _run(module, home, connection, cluster=cluster)
        while True:
            _pause(60)
    except EOFError:
        pass
    finally:
        _end_descendants()
        while home.exists():
            shutil.rmtree(home, ignore_errors=True)


def _run(module: str, home: Path, connection: int, *, cluster: bool) -> None:
    """Run the module to its end, then kill whatever it started."""
    (home / "token").write_text(secrets.token_hex(32))
    for name in ("cwd", "ray"):
        (home / name).mkdir()
    with (home / f"{module.rsplit('.', maxsplit=1)[-1]}.log").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603 - our own
            [sys.executable, "-P", "-m", module, str(home), str(connection)],
            pass_fds=[connection],
            cwd=home / "cwd",
            env=_environment(home, cluster=cluster),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    os.close(connection)  # so the run notices when the module ends
    while process.poll() is None:
        _pause(0.2)
    _end_descendants()


def _environment(home: Path, *, cluster: bool) -> dict[str, str]:
    """Return the environment for Flower and Ray: no telemetry, nothing that listens beyond this machine.

    Ray's servers bind to the loopback if it does not expect a cluster, and require a token that only this user can
    read. A cluster that is there has its own.
    """
    alone = {
        "RAY_TMPDIR": str(home / "ray"),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(home / "token"),
        "RAY_worker_niceness": "0",  # by default, actors run at low priority
    }
    dropped = ("FLWR_",) if cluster else ("FLWR_", "RAY_")
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(dropped)},
        "FEDDECORR_SIMULATION": str(home),
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        **({} if cluster else alone),
    }


def _pause(seconds: float | None) -> None:
    """Wait for a line from the run or a timeout; raise EOFError when the run closes the standard input."""
    if select.select([sys.stdin], [], [], seconds)[0] and not sys.stdin.readline():
        _close()


def _close(*_: object) -> None:
    """Signal that the run has ended."""
    raise EOFError


def _end_descendants() -> None:
    """Kill all descendants, until there are none."""
    while found := psutil.Process().children(recursive=True):
        for process in found:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(found, timeout=1)
        time.sleep(0.01)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), cluster=sys.argv[3:] == ["cluster"])
