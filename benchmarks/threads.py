"""Processes × threads: how fast rounds are when the cores are shared out between clients and within a client.

    python -m benchmarks.threads [--turns 5] [--record results/threads.json]

ResNet18 on 3×32×32 images: one large client, three of mixed sizes, and twelve of mixed sizes. For each, every division
of the cores into workers × threads takes its turn, a round each; the best turn counts, as the ratio to one process
with one thread. `auto` is what `training.threads=auto` picks.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.recording import write_record
from benchmarks.speed import ours
from benchmarks.turns import Contestant, contest, take_part
from feddecorr.config.overrides import read_overrides
from feddecorr.settings.flat import parse_settings

WORDS = [
    "data=synthetic", "data.test=10", "model=resnet18", "training.epochs=1", "evaluation.every=1000",
    "partition=quantity", "partition.alpha=2",
]  # fmt: skip
SETTINGS = {
    "one client, 128 images": ["clients=1", "data.train=128"],
    "three clients of mixed sizes, 256 images": ["clients=3", "data.train=256"],
    "twelve clients of mixed sizes, 384 images": ["clients=12", "data.train=384"],
}
CORES = os.cpu_count() or 1


def divisions() -> Iterator[tuple[int, int]]:
    """Yield numbers of workers and threads: one of each, and then all cores in every way."""
    yield 1, 1
    for threads in range(1, CORES + 1):
        if CORES % threads == 0 and CORES > 1:
            yield CORES // threads, threads


def division(workers: int, threads: int) -> list[str]:
    """Return the settings for a number of workers with a number of threads each."""
    engine = ["engine=serial"] if workers == 1 else ["engine=pool", f"engine.workers={workers}"]
    return [*engine, f"training.threads={threads}"]


def measure(words: list[str], turns: int) -> dict[str, Any]:
    """Return the images per second of every division, and its ratio to one process with one thread."""
    settings = [*WORDS, *words, f"rounds={turns + 2}"]  # the last round, which is evaluated, is never done
    contestants = {
        f"{workers} × {threads}": Contestant("benchmarks.threads", [*settings, *division(workers, threads)])
        for workers, threads in divisions()
    }
    measured = {name: [turn.speed for turn in done] for name, done in contest(contestants, turns).items()}
    best = {name: max(each) for name, each in measured.items()}
    picked = parse_settings(read_overrides([*settings, "training.threads=auto"]))[0].training.threads
    return {
        "ratio to 1 × 1": {name: round(speed / best["1 × 1"], 4) for name, speed in best.items()},
        "images per second": measured,
        "auto": f"{max(1, CORES // picked)} × {picked}",
    }


def main() -> None:
    """Measure, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--one", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        take_part(ours(arguments.one))
        return
    found: dict[str, Any] = {"turns": arguments.turns, "cores": CORES}
    for title, words in SETTINGS.items():
        found[title] = measure(words, arguments.turns)
        ratios = ", ".join(f"{name} {ratio:.2f}" for name, ratio in found[title]["ratio to 1 × 1"].items())
        print(f"{title}: workers × threads, as ratios to 1 × 1: {ratios}; auto is {found[title]['auto']}")
    if arguments.record:
        write_record(arguments.record, found)


if __name__ == "__main__":
    main()
