"""What evaluation costs: rounds with it over rounds without it, and over the least that it could cost.

    python -m benchmarks.evaluation [--turns 10] [--record results/evaluation.json]

For each setting, three kinds of processes live side by side and take turns while the others sleep: rounds that are
never evaluated, rounds that are all evaluated on 10 000 test images, and bare forward passes over the same images,
spread over the cores. The best turn of each counts, after one to warm up. A round alone and the bare passes together
are the floor. A bare pass takes pixels as they lie in memory, standardizes them and calls the network, a process for
each core, and nothing else. Under `evaluation.every=auto`, only some rounds are evaluated: the cost of its average
round follows.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.recording import write_record
from benchmarks.turns import Contestant, contest, take_part
from feddecorr.config.overrides import read_overrides
from feddecorr.engines.processes import keep_freed_memory
from feddecorr.runs.evaluation import rhythm
from feddecorr.runs.pipeline import run
from feddecorr.server.federation import Simulation
from feddecorr.settings.flat import parse_settings

DATA = ["data=synthetic", "data.test=10000", "partition=homogeneous", "training.epochs=1", "engine=pool"]
MANY = [
    *DATA, "data.train=50000", "clients=1000", "participation=0.05", "training.batch=10",
]  # fmt: skip
DIGITS = ["data.size=28", "data.channels=1", "model=mlp"]
SETTINGS: dict[str, list[str]] = {
    "convnet, 10 clients x 1000 images": [*DATA, "data.train=10000", "clients=10"],
    "convnet, 1000 clients x 50 images, cohort 50": MANY,
    "logistic regression, 1000 clients x 50 images, cohort 50": [*MANY, *DIGITS, "model.widths=[]"],
    "perceptron of 200 units, 1000 clients x 50 images, cohort 50": [*MANY, *DIGITS, "model.widths=[200]"],
}
CORES = os.cpu_count() or 1
NEVER = 10**6


def train(words: list[str]) -> Iterator[int]:
    """Run the experiment; yield the number of its rounds, one by one."""
    for _ in run(*parse_settings(read_overrides(words))):
        yield 1


@torch.inference_mode()
def forward(words: list[str], part: int) -> Iterator[int]:
    """Go over a core's part of the test images, again and again; yield the number of times, one by one."""
    keep_freed_memory()
    torch.set_num_threads(1)
    experiment, options = parse_settings(read_overrides(words))
    simulation = Simulation(experiment)
    dataset, model = simulation.dataset, simulation.task.build_model().eval()
    mine = dataset.test.pixels.split(options.evaluation.batch)[part::CORES]
    while True:
        for pixels in mine:
            model(dataset.normalize(pixels))
        yield 1


def measure(words: list[str], turns: int) -> dict[str, list[float]]:
    """Return the seconds of every turn."""
    rounds = f"rounds={turns + 2}"  # of which the last, in which more is measured, is never done
    here = "benchmarks.evaluation"
    contestants = {
        "alone": Contestant(here, ["train", *words, rounds, f"evaluation.every={NEVER}"]),
        "evaluated": Contestant(here, ["train", *words, rounds, "evaluation.every=1"]),
        "forward": Contestant(here, *([str(part), *words] for part in range(CORES))),
    }
    return {name: [turn.seconds for turn in done] for name, done in contest(contestants, turns).items()}


def ratios(seconds: dict[str, float], every: int) -> dict[str, float]:
    """Return how a round with evaluation compares to the floor and to one without, and under `auto` on average."""
    return {
        "floor": seconds["evaluated"] / (seconds["alone"] + seconds["forward"]),
        "alone": seconds["evaluated"] / seconds["alone"],
        "auto": 1 + (seconds["evaluated"] / seconds["alone"] - 1) / every,
    }


def main() -> None:
    """Measure, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--only", default="", help="only the settings whose title holds this")
    parser.add_argument("--record", type=Path)
    parser.add_argument("--one", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        kind, *words = arguments.one
        take_part(train(words) if kind == "train" else forward(words, int(kind)))
        return
    found: dict[str, Any] = {"turns": arguments.turns, "cores": CORES}
    for title, words in SETTINGS.items():
        if arguments.only not in title:
            continue
        experiment, options = parse_settings(read_overrides(words))
        dataset = experiment.data.load()
        every = rhythm(experiment, options.evaluation, len(dataset.train), len(dataset.test))
        seconds = measure(words, arguments.turns)
        best = ratios({name: min(each) for name, each in seconds.items()}, every)
        typical = ratios({name: median(each) for name, each in seconds.items()}, every)
        found[title] = {"seconds": seconds, "auto": every, "ratio": best, "ratio of medians": typical}
        print(f"{title}\n  " + ", ".join(f"{name} {min(each):.3f} s" for name, each in seconds.items()))
        for name, found_ratios in (("best", best), ("medians", typical)):
            print(
                f"  {name}: an evaluated round over the floor {found_ratios['floor']:.3f}, over a round alone "
                f"{found_ratios['alone']:.3f}; with every=auto, which is {every}, {found_ratios['auto']:.3f}"
            )
    if arguments.record:
        write_record(arguments.record, found)


if __name__ == "__main__":
    main()
