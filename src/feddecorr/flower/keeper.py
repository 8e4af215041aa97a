"""The process that starts Flower's simulation and ends all of it, however the run ends: `python keeper.py HOME`.

It lives as long as its standard input is open. When the run closes that, or dies, or when Flower's own run is over,
it kills every process that came of it: orphans too, of which it is the next of kin. Then it removes the folder. It
imports nothing of this package, so that it can be run by itself and starts at once.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback
import urllib.error
import urllib.request
from pathlib import Path

import psutil

ATTEMPTS = 3
"""How many ports are tried: another process may take a free one before the SuperLink does."""


def main(home: Path) -> None:
    """Run the app in HOME/app for the federation that HOME/federation.json describes, and clean up."""
    signal.signal(signal.SIGTERM, _close)
    _adopt_orphans()
    try:
        try:
            _simulate(home)
        except EOFError:
            raise
        except Exception:  # for the run to tell of
            (home / "keeper.log").write_text(traceback.format_exc())
        finally:
            _end_descendants()
        (home / "ended").touch()
        while True:
            _pause(60)
    except EOFError:
        shutil.rmtree(home, ignore_errors=True)


def _simulate(home: Path) -> None:
    """Start a SuperLink of one's own, and do one run on it."""
    for name in ("cwd", "flwr", "ray"):
        (home / name).mkdir()
    environment = _environment(home)
    port = _start_superlink(home, environment)
    config = f'[superlink]\ndefault = "own"\n\n[superlink.own]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    (home / "flwr" / "config.toml").write_text(config)
    federation = json.loads((home / "federation.json").read_text())
    settings = " ".join(f"{name}={value}" for name, value in federation.items())
    run = _start(
        ["flwr", "run", str(home / "app"), "own", "--stream", "--federation-config", settings],
        home / "run.log",
        cwd=home / "cwd",
        environment=environment,
    )
    while run.poll() is None:
        _pause(0.2)


def _environment(home: Path) -> dict[str, str]:
    """Return the variables for Flower and Ray: of their own folders, no calls home, no installation, no old cluster."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FLWR_", "RAY_"))}
    return {
        **kept,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", "")]),
        "FLWR_HOME": str(home / "flwr"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_TMPDIR": str(home / "ray"),
        "RAY_worker_niceness": "0",  # clients are the work itself; by default they give way to everything
    }


def _start_superlink(home: Path, environment: dict[str, str]) -> int:
    """Return the port of a SuperLink that is ours."""
    for _ in range(ATTEMPTS):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        words = ["--insecure", "--simulation", "--host", "127.0.0.1", "--port", str(port)]
        superlink = _start(
            ["flower-superlink", *words, "--disable-runtime-dependency-installation"],
            home / "superlink.log",
            cwd=home / "cwd",
            environment=environment,
        )
        while superlink.poll() is None:
            if _is_healthy(port) and _listens(superlink.pid, port):
                return port
            _pause(0.1)
    raise RuntimeError("no SuperLink could be started")


def _is_healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _listens(process: int, port: int) -> bool:
    """Tell whether it is this process that answers there."""
    found = psutil.Process(process).net_connections(kind="tcp")
    return any(each.status == psutil.CONN_LISTEN and each.laddr.port == port for each in found)


def _start(words: list[str], log: Path, *, cwd: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    program = shutil.which(words[0], path=environment["PATH"])
    if program is None:
        raise RuntimeError(f"there is no program {words[0]}")
    with log.open("ab") as output:
        return subprocess.Popen(  # noqa: S603 - Flower's own programs
            [program, *words[1:]],
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def _pause(seconds: float) -> None:
    """Wait, unless the run closes the standard input, to which it never writes."""
    if select.select([sys.stdin], [], [], seconds)[0]:
        _close()


def _close(*_: object) -> None:
    """Say that the run needs no simulation any more."""
    raise EOFError


def _adopt_orphans() -> None:
    """On Linux, let processes whose parents die become children of this one: so none gets out of sight."""
    if sys.platform.startswith("linux"):
        set_child_subreaper = 36  # its number in <linux/prctl.h>
        ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


def _end_descendants() -> None:
    """Kill all that were started from here, until there are none."""
    while found := psutil.Process().children(recursive=True):
        for process in found:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(found, timeout=1)
        time.sleep(0.01)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
