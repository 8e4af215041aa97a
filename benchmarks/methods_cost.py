"""What each method costs a client, as a ratio to FedAvg: MobileNetV2, 3×32×32, batch 64.

    python -m benchmarks.methods_cost [METHOD …] [--repeats 6] [--settings KEY=VALUE …]
        [--record results/methods_cost.json]

In one process the methods take turns to play the same client's second round (so that it remembers its first), two
epochs of two steps with all that comes before and after them: references, control variates, what is sent and
remembered. FedAvg also plays with FedDecorr. Where a method has references, it also plays with augmented images,
which references have to look at in every epoch anew; that is compared with FedAvg on augmented images. Counted is
processor time, which other programs on the machine change less than time on the clock; the quickest turn of each
counts.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.recording import write_record
from feddecorr.config.overrides import read_overrides
from feddecorr.engines.processes import keep_freed_memory
from feddecorr.methods import METHODS
from feddecorr.server.federation import Simulation
from feddecorr.settings.flat import parse_settings
from feddecorr.training.client import Client

WORDS = [
    "data=synthetic", "data.train=256", "data.test=10", "clients=2", "partition=homogeneous", "model=mobilenetv2",
    "training.epochs=2",
]  # fmt: skip
STEPS = 4
AUGMENTED = " on augmented images"
DECORRELATED = " with feddecorr"
WITH_REFERENCES = ("moon", "fedntd", "fedsol", "feddr", "fedvls")
LIMITS = {"fedprox": 1.03, "scaffold": 1.05, "moon": 1.45, "fedntd": 1.2}
"""The paper's table of computation times gives FedProx 1.81 and MOON 1.82 (CIFAR-10)."""


def prepare(contestant: str, settings: Sequence[str]) -> Callable[[], float]:
    """Return what plays a client's second round and returns its seconds of processor time."""
    name = contestant.removesuffix(AUGMENTED).removesuffix(DECORRELATED)
    augment = "crop,flip" if contestant.endswith(AUGMENTED) else "none"
    regularizer = "feddecorr" if contestant.endswith(DECORRELATED) else "none"
    words = [*WORDS, *settings, f"method={name}", f"data.augment={augment}", f"regularizers={regularizer}"]
    simulation = Simulation(parse_settings(read_overrides(words))[0])
    client, server = Client(simulation.task), simulation.federation.start()
    method = simulation.task.experiment.method
    first, memory = client(method.broadcast(1, server), simulation.shards[0], {})
    server = replace(method.aggregate(server, [first], simulation.federation.info(1)), buffers=first.buffers)
    sent = method.broadcast(2, server)

    def play() -> float:
        started = time.process_time()
        client(sent, simulation.shards[0], memory)
        return time.process_time() - started

    return play


def measure(methods: Sequence[str], repeats: int, settings: Sequence[str] = ()) -> dict[str, Any]:
    """Return the ratio of each to FedAvg, and all times."""
    names = list(dict.fromkeys(["fedavg", f"fedavg{DECORRELATED}", *methods]))
    if referring := [f"{name}{AUGMENTED}" for name in names if name in WITH_REFERENCES]:
        names += [f"fedavg{AUGMENTED}", *referring]
    players = {name: prepare(name, settings) for name in names}
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(repeats):
        for name in names if turn % 2 else reversed(names):
            seconds[name].append(players[name]())
        print(f"turn {turn + 1} of {repeats} is done", file=sys.stderr, flush=True)
    best = {name: min(measured) for name, measured in seconds.items()}
    plain = {name: best["fedavg" + AUGMENTED * name.endswith(AUGMENTED)] for name in names}
    return {
        "ratio to FedAvg": {name: round(best[name] / plain[name], 4) for name in names},
        "seconds of each turn": {name: [round(one, 3) for one in measured] for name, measured in seconds.items()},
    }


def main() -> None:
    """Measure, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", default=list(METHODS.table), metavar="METHOD")
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--settings", nargs="*", default=[], metavar="KEY=VALUE", help="further settings of the runs")
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    found = measure(arguments.methods, arguments.repeats, arguments.settings)
    for name, ratio in found["ratio to FedAvg"].items():
        limit = f", at most {LIMITS[name]} wanted" if name in LIMITS else ""
        seconds = min(found["seconds of each turn"][name]) / STEPS
        print(f"{name:28} {seconds:8.3f} s a step, {ratio:.3f} of FedAvg{limit}")
    if arguments.record:
        write_record(arguments.record, found)


if __name__ == "__main__":
    main()
