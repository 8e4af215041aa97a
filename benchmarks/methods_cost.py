"""What each method costs a client, as a ratio to FedAvg: MobileNetV2, 3×32×32, batch 64.

    python -m benchmarks.methods_cost [METHOD …] [--repeats 7] [--record results/methods_cost.json]

In one process the methods take turns to play the same client's second round (so that it remembers its first),
three steps with all that comes before and after them: references, control variates, what is sent and remembered.
Counted is processor time, which other programs on the machine change less than time on the clock; the quickest
turn of each method counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from benchmarks.recording import write_record
from feddecorr.client import Client
from feddecorr.engines.allocator import keep_freed_memory
from feddecorr.federation import Simulation
from feddecorr.methods import METHODS
from feddecorr.settings.experiment import Experiment
from feddecorr.settings.words import read_words

WORDS = ["data=synthetic", "data.train=384", "data.test=10", "clients=2", "partition=homogeneous", "model=mobilenetv2"]
LIMITS = {"fedprox": 1.03, "scaffold": 1.05, "moon": 1.6}
"""The paper's table of computation times gives FedProx 1.81 and MOON 1.82 (CIFAR-10)."""


def prepare(name: str) -> Callable[[], float]:
    """Return what plays a client's second round and returns its seconds of processor time."""
    simulation = Simulation(Experiment.parse(read_words([*WORDS, f"method={name}", "training.epochs=1"])))
    client, server = Client(simulation.task), simulation.federation.start()
    method = simulation.task.experiment.method
    first, memory = client(method.broadcast(1, server), simulation.shards[0], {})
    server = replace(method.step(server, [first], simulation.federation.info(1)), buffers=first.buffers)
    sent = method.broadcast(2, server)

    def play() -> float:
        started = time.process_time()
        client(sent, simulation.shards[0], memory)
        return time.process_time() - started

    return play


def main() -> None:
    """Measure, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", default=list(METHODS.table), metavar="METHOD")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    names = list(dict.fromkeys(["fedavg", *arguments.methods]))
    players = {name: prepare(name) for name in names}
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(arguments.repeats):
        for name in names if turn % 2 else reversed(names):
            seconds[name].append(players[name]())
    best = {name: min(measured) for name, measured in seconds.items()}
    ratios = {name: best[name] / best["fedavg"] for name in names}
    for name in names:
        limit = f", at most {LIMITS[name]} wanted" if name in LIMITS else ""
        print(f"{name:12} {best[name] / 3:8.3f} s a step, {ratios[name]:.3f} of FedAvg{limit}")
    if arguments.record:
        found = {
            "ratio to FedAvg": {name: round(ratio, 4) for name, ratio in ratios.items()},
            "seconds of each turn": {name: [round(one, 3) for one in measured] for name, measured in seconds.items()},
        }
        write_record(arguments.record, found)


if __name__ == "__main__":
    main()
