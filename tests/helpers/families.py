"""Commands whose whole family of processes is known, and what must not be left of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psutil

HELPERS = Path(__file__).parent
MARK = "FEDDECORR_TEST_MARK"


class Started:
    """A command, and all processes that come of it."""

    def __init__(self, folder: Path, *words: object) -> None:
        self.mark = uuid4().hex
        self.temporary = Path(tempfile.mkdtemp(prefix="t"))  # short, for Ray's sockets
        self.errors = folder / f"{self.mark}.txt"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "feddecorr", *map(str, words)],
                env={
                    **os.environ,
                    MARK: self.mark,
                    "TMPDIR": str(self.temporary),
                    "PYTHONPATH": os.pathsep.join([str(HELPERS), *sys.path]),
                },
                cwd=folder,
                stderr=errors,
            )

    def family(self) -> dict[int, str]:
        """Return the processes that inherited the mark, and those that came of them, by their numbers."""
        found = {each.pid: each for each in psutil.process_iter() if _environment(each).get(MARK) == self.mark}
        for each in list(found.values()):
            try:
                found |= {child.pid: child for child in each.children(recursive=True)}
            except psutil.NoSuchProcess:
                continue
        return {pid: name for pid, each in found.items() if (name := running_name(each))}

    def wait_for(self, condition: Callable[[], object]) -> None:
        """Wait until something holds, as long as the command lives."""
        while not condition():
            assert self.process.poll() is None, self.errors.read_text()
            time.sleep(0.5)


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return {}


def running_name(process: psutil.Process) -> str:
    """Return its name; none for one that has ended."""
    try:
        return "" if process.status() == psutil.STATUS_ZOMBIE else process.name()
    except psutil.NoSuchProcess:
        return ""


Start = Callable[..., Started]


@contextmanager
def starting(folder: Path) -> Iterator[Start]:
    """Give what starts commands, which are ended at last."""
    started: list[Started] = []

    def start_one(*words: object) -> Started:
        started.append(Started(folder, *words))
        return started[-1]

    yield start_one
    for each in started:
        each.process.kill()
        each.process.wait()
        shutil.rmtree(each.temporary, ignore_errors=True)


def check_nothing_left(command: Started, seen: set[int]) -> None:
    """See that neither the family of a command nor anything in its temporary folder is there any more."""
    deadline = time.monotonic() + 300  # of which it needs one second, unless others have the processors

    def left() -> list[str]:
        seen_still = (running_name(each) for each in psutil.process_iter() if each.pid in seen)  # also while they end
        return [*command.family().values(), *filter(None, seen_still), *map(str, command.temporary.iterdir())]

    while found := left():
        assert time.monotonic() < deadline, found
        time.sleep(0.5)
