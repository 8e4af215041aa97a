"""Commands in a process of their own, with little memory and time, which reach nobody and start nothing."""

from __future__ import annotations

import multiprocessing
import os
import re
import resource
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REACHING = frozenset(
    {"socket.connect", "socket.getaddrinfo", "socket.bind", "subprocess.Popen", "os.system", "os.exec"}
)
"""What Python tells its auditors before another machine is asked, or a program started."""

MIB = 1 << 20
SECONDS = 30


@dataclass(frozen=True)
class Confined:
    """What a command left behind: `memory` are the bytes that it took beyond what it began with."""

    code: int
    err: str
    memory: int

    @property
    def sentence(self) -> str:
        """The one line that says what is wrong."""
        (line,) = [line for line in self.err.splitlines() if line.startswith("error: ")]
        return line


def confined(*words: object, memory: int, folder: Path) -> Confined:
    """Run `feddecorr WORDS` in a folder, and let it take no more than that memory."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["feddecorr.cli", "feddecorr.data", "feddecorr.runs.pipeline", "datasets", "pandas"])
    with tempfile.NamedTemporaryFile("r", errors="replace") as reported:
        process = context.Process(target=_run, args=(list(map(str, words)), memory, str(folder), reported.name))
        process.start()
        process.join(4 * SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
        said = reported.read()
    taken = re.search(r"^taken (\d+)$", said, re.M)
    return Confined(process.exitcode or 0, said, int(taken[1]) if taken else -1)


def _run(words: Sequence[str], memory: int, folder: str, reported: str) -> None:
    file = os.open(reported, os.O_WRONLY)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115 - to the end
    os.chdir(folder)
    os.environ["FEDDECORR_DATA"] = f"{folder}/cache"
    from feddecorr.config.experiment import Experiment  # noqa: PLC0415
    from feddecorr.paper.commands import main  # noqa: PLC0415 - loaded by the server of forks

    Experiment.parse({})
    sys.addaudithook(_refuse)
    before = _peak()
    limit = _size() + memory
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    sys.argv = ["feddecorr", *words]
    try:
        main()
    finally:
        sys.stderr.write(f"\ntaken {_peak() - before}\n")
        sys.stdout.flush()
        sys.stderr.flush()


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    from feddecorr.data.arrow import COMMAND  # noqa: PLC0415 - loaded by the server of forks

    if event in REACHING and not (event == "subprocess.Popen" and tuple(arguments[1]) == COMMAND):
        raise SystemError(f"a stranger's file reached out: {event} {arguments}")


def _peak() -> int:
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) << 10  # type: ignore[index]


def _size() -> int:
    return int(re.search(r"VmSize:\s+(\d+)", Path("/proc/self/status").read_text())[1]) << 10  # type: ignore[index]
