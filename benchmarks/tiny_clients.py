"""Many tiny clients: images per second one by one, side by side and merged, with bare PyTorch loops in the same run.

    python -m benchmarks.tiny_clients [--turns 10] [--record results/tiny_clients.json]

1000 clients hold 50 images of 28×28 each; 50 are sampled in a round, in batches of 10. The contestants take turns of a
few rounds; the best turn of each counts. The bare loop is that of `benchmarks.speed`, which averages nothing; one for
each core run at the same time.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.recording import write_record
from benchmarks.speed import bare, ours
from benchmarks.turns import Contestant, contest, take_part

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
    "serial, together": [["ours", "training.clients_per_batch=auto"]],
    "pool, together": [["ours", "training.clients_per_batch=auto", "engine=pool"]],
    "pool, merged": [["ours", "training.clients_per_batch=auto", "training.pre_aggregate=true", "engine=pool"]],
}
"""The processes of each contestant: what they run, and with which settings."""

ROUNDS = 10
"""In a turn."""


def turns_of(loop: str, words: list[str]) -> Iterator[int]:
    """Yield the number of images after each turn."""
    rounds = {"bare": bare, "ours": ours}[loop](words)
    while done := sum(islice(rounds, ROUNDS)):
        yield done


def measure(words: list[str], turns: int) -> dict[str, Any]:
    """Return the images per second of every turn of all contestants, and their ratios to the bare loops."""
    settings = [*SETTING, *words, f"rounds={ROUNDS * (turns + 1) + 1}"]  # the last, which is evaluated, is never done
    contestants = {
        name: Contestant("benchmarks.tiny_clients", *([loop, *settings, *more] for loop, *more in processes))
        for name, processes in CONTESTANTS.items()
    }
    speeds = {name: [turn.speed for turn in done] for name, done in contest(contestants, turns).items()}
    best = {name: max(each) for name, each in speeds.items()}
    typical = {name: median(each) for name, each in speeds.items()}
    return {
        "images per second": speeds,
        "ratio to a bare loop per core": {name: round(speed / best[YARDSTICK], 4) for name, speed in best.items()},
        "ratio of medians": {name: round(speed / typical[YARDSTICK], 4) for name, speed in typical.items()},
    }


def main() -> None:
    """Measure, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--one", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        loop, *words = arguments.one
        take_part(turns_of(loop, words))
        return
    found: dict[str, Any] = {"turns": arguments.turns, "cores": CORES}
    for title, words in NETWORKS.items():
        found[title] = measure(words, arguments.turns)
        print(title)
        for name, ratio in found[title]["ratio to a bare loop per core"].items():
            speed = max(found[title]["images per second"][name])
            print(f"  {name:20} {speed:9.0f} images per second, {ratio:.2f} of {YARDSTICK}")
    if arguments.record:
        write_record(arguments.record, found)


if __name__ == "__main__":
    main()
