"""Contestants that take turns: processes that live side by side, of which some work while the others sleep.

So whatever else the machine does hits all alike. A benchmark that holds a contest takes the words after `--one` and
calls `take_part` with them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent


def environment() -> dict[str, str]:
    """Return the environment in which a child process finds the benchmarks, wherever it is started."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def take_part(work: Iterator[int]) -> None:
    """Be a contestant: for every line on standard input do one more turn, and print how much work that was."""
    for _ in sys.stdin:
        print(next(work), flush=True)


class Turn(NamedTuple):
    """How much work was done, and in which time."""

    work: int
    seconds: float

    @property
    def speed(self) -> float:
        """Work per second."""
        return self.work / self.seconds


class Contestant:
    """Processes that do a turn at the same time when they are asked to: each is `python -m MODULE --one WORDS`."""

    def __init__(self, module: str, *processes: Sequence[str]) -> None:
        command = [sys.executable, "-m", module, "--one"]
        self.processes = [
            subprocess.Popen(
                [*command, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
            )
            for words in processes
        ]

    def turn(self) -> Turn:
        """Let all do one more turn, until the last is done."""
        started = time.perf_counter()
        for process in self.processes:
            print(file=process.stdin, flush=True)
        work = sum(self._answer(process) for process in self.processes)
        return Turn(work, time.perf_counter() - started)

    @staticmethod
    def _answer(process: subprocess.Popen[str]) -> int:
        answer = process.stdout.readline() if process.stdout else ""
        if not answer:
            raise RuntimeError(f"a contestant failed, see above: {process.args!r}")
        return int(answer)

    def end(self) -> None:
        """Let them go."""
        for process in self.processes:
            process.communicate()


def contest(contestants: Mapping[str, Contestant], turns: int) -> dict[str, list[Turn]]:
    """Return every turn but the first, which is to warm up; then let all go."""
    found: dict[str, list[Turn]] = {name: [] for name in contestants}
    for number in range(turns + 1):
        now = {name: contestant.turn() for name, contestant in contestants.items()}
        reported = (f"{name} {turn.seconds:.3f} s" for name, turn in now.items())
        print(f"turn {number} of {turns}:", ", ".join(reported), file=sys.stderr, flush=True)
        if number:
            for name, turn in now.items():
                found[name].append(turn)
    for contestant in contestants.values():
        contestant.end()
    return found
