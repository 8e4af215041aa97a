"""Many tiny clients: images per second one by one and side by side, beside bare PyTorch loops in the same run.

    python -m benchmarks.tiny_clients [--turns 10] [--record results/tiny_clients.json]

1000 clients hold 50 images of 28×28 each; 50 take part in a round, in batches of 10. The contestants are processes
that live side by side and take turns of a few rounds while the others sleep; the best turn of each counts, after one
to warm up. The bare loop is that of `benchmarks.speed`, which averages nothing; one for each core run at the same
time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.recording import write_record
from benchmarks.speed import bare, ours

SETTING = [
    "data=synthetic", "data.train=50000", "data.test=500", "data.channels=1", "data.size=28", "clients=1000",
    "partition=homogeneous", "participation=0.05", "training.batch=10", "training.epochs=1", "evaluation.every=1000000",
]  # fmt: skip
NETWORKS = {
    "logistic regression": ["model=mlp", "model.widths=[]"],
    "one hidden layer of 200": ["model=mlp", "model.widths=[200]"],
}
CORES = os.cpu_count() or 1
YARDSTICK = "a bare loop per core"
CONTESTANTS: dict[str, list[list[str]]] = {
    "bare loop": [["bare"]],
    YARDSTICK: [["bare"]] * CORES,
    "serial": [["ours"]],
    "pool": [["ours", "engine=pool"]],
    "serial, together": [["ours", "training.together=auto"]],
    "pool, together": [["ours", "training.together=auto", "engine=pool"]],
}
"""The processes of each contestant: what they run, and with which settings."""

ROUNDS = 10
"""In a turn."""


def take_part(loop: str, words: list[str]) -> None:
    """Do a turn for every line on standard input, and print the number of its images."""
    rounds = {"bare": bare, "ours": ours}[loop](words)
    for _ in sys.stdin:
        print(sum(islice(rounds, ROUNDS)), flush=True)


class Contestant:
    """Processes that do a turn at the same time when they are asked to."""

    def __init__(self, name: str, words: list[str]) -> None:
        command = [sys.executable, "-m", "benchmarks.tiny_clients", "--one"]
        self._processes = [
            subprocess.Popen([*command, loop, *words, *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for loop, *more in CONTESTANTS[name]
        ]

    def turn(self) -> float:
        """Return the images per second of one more turn."""
        started = time.perf_counter()
        for process in self._processes:
            assert process.stdin is not None
            print(file=process.stdin, flush=True)
        images = 0
        for process in self._processes:
            assert process.stdout is not None
            images += int(process.stdout.readline())
        return images / (time.perf_counter() - started)

    def end(self) -> None:
        """Let it go."""
        for process in self._processes:
            process.communicate()


def contest(words: list[str], turns: int) -> dict[str, list[float]]:
    """Return the images per second of every turn of all contestants."""
    rounds = ROUNDS * (turns + 1) + 1  # the last one, which is evaluated, is never done
    contestants = {name: Contestant(name, [*SETTING, *words, f"rounds={rounds}"]) for name in CONTESTANTS}
    speeds: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    for turn in range(turns + 1):
        now = {name: contestant.turn() for name, contestant in contestants.items()}
        print(f"turn {turn} of {turns}:", *(f"{name} {speed:.0f}" for name, speed in now.items()), file=sys.stderr)
        if turn:  # the one before is to warm up
            for name, speed in now.items():
                speeds[name].append(speed)
    for contestant in contestants.values():
        contestant.end()
    return speeds


def main() -> None:
    """Measure, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--one", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        loop, *words = arguments.one
        take_part(loop, words)
        return
    found: dict[str, Any] = {"turns": arguments.turns, "cores": CORES}
    for title, words in NETWORKS.items():
        speeds = contest(words, arguments.turns)
        best = {name: max(values) for name, values in speeds.items()}
        typical = {name: median(values) for name, values in speeds.items()}
        found[title] = {
            "images per second": speeds,
            "ratio to a bare loop per core": {name: speed / best[YARDSTICK] for name, speed in best.items()},
            "ratio of medians": {name: speed / typical[YARDSTICK] for name, speed in typical.items()},
        }
        print(title)
        for name, speed in best.items():
            print(f"  {name:20} {speed:9.0f} images per second, {speed / best[YARDSTICK]:.2f} of {YARDSTICK}")
    if arguments.record:
        write_record(arguments.record, found)


if __name__ == "__main__":
    main()
