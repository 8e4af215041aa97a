"""Contestants that take turns: processes that live side by side, of which one works while the others sleep.

So whatever else the machine does hits all alike. A benchmark that holds a contest takes the words after `--one` and
calls `take_part` with them.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence


def take_part(results: Iterator[float]) -> None:
    """Be a contestant: for every line on standard input do one more turn, and print what came out."""
    for _ in sys.stdin:
        print(next(results), flush=True)


class Contestant:
    """A process that does a turn when it is asked to: `python -m MODULE --one WORDS`."""

    def __init__(self, module: str, words: Sequence[str]) -> None:
        command = [sys.executable, "-m", module, "--one", *words]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def turn(self) -> float:
        """Return what came out of one more turn."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def end(self) -> None:
        """Let it go."""
        self.process.communicate()


def contest(contestants: Mapping[str, Contestant], turns: int) -> dict[str, list[float]]:
    """Return what came out of every turn but the first, which is to warm up; then let all go."""
    found: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(turns + 1):
        now = {name: contestant.turn() for name, contestant in contestants.items()}
        print(f"turn {turn} of {turns}:", *(f"{name} {each:.4g}" for name, each in now.items()), file=sys.stderr)
        if turn:
            for name, each in now.items():
                found[name].append(each)
    for contestant in contestants.values():
        contestant.end()
    return found
