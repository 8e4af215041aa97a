"""The average of the last ten rounds' weights next to the last round, without and with FedDecorr.

    python -m benchmarks.averaged_weights [--seeds 20] [--record results/averaged_weights.json]

CIFAR-10 at the scale `many`, alpha 0.1, under a learning rate that stays and under one that falls to zero. BatchNorm's
statistics are averaged with the weights. Declared on 2026-11-18, before the first run: twenty seeds, 0, 1, 2, …; what
is compared is the paired gain of FedDecorr in the last model and in the average. Runs that the record holds are not
done again.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections import deque
from pathlib import Path

from benchmarks.methods_accuracy import accuracy
from benchmarks.recording import write_record
from feddecorr.config.overrides import read_overrides
from feddecorr.core.states import Mean, State
from feddecorr.paper.scales import find_scale
from feddecorr.results.sample import Sample
from feddecorr.runs.pipeline import run
from feddecorr.server.federation import Simulation
from feddecorr.settings.flat import parse_settings

LAST = 10
SCHEDULES = ("constant", "cosine")
ARMS = ("none", "feddecorr")
STATISTICS = ("last model", f"mean of the last {LAST} models")


def measure(schedule: str, arm: str, seed: int) -> dict[str, float]:
    """Return the accuracy of the last model and of the average of the last ones."""
    scale = find_scale("many")
    words = f"{scale.every} {scale.data['cifar10']} partition.alpha=0.1 regularizers={arm} seed={seed}".split()
    words += ["evaluation.every=1000", *(["training.schedule=constant"] if schedule == "constant" else [])]
    experiment, options = parse_settings(read_overrides(words))
    simulation = Simulation(experiment)
    states: deque[State] = deque((record.state for record in run(experiment, options, through=simulation)), LAST)
    average = Mean()
    for state in states:
        average.add(state, 1)
    last, mean = (accuracy(simulation, state) for state in (states[-1], average.value))
    return {STATISTICS[0]: last, STATISTICS[1]: mean}


def main() -> None:
    """Measure what is missing, record it run by run, and print the gains."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--record", type=Path, default=Path("results/averaged_weights.json"))
    arguments = parser.parse_args()
    runs = json.loads(arguments.record.read_text())["accuracy"] if arguments.record.exists() else {}
    for seed, schedule, arm in itertools.product(range(arguments.seeds), SCHEDULES, ARMS):
        name = f"{schedule} {arm} {seed}"
        if name not in runs:
            runs[name] = measure(schedule, arm, seed)
            print(name, runs[name], flush=True)
            write_record(arguments.record, {"accuracy": runs})
    for schedule, statistic in itertools.product(SCHEDULES, STATISTICS):
        without, with_it = (
            Sample({seed: 100 * runs[f"{schedule} {arm} {seed}"][statistic] for seed in range(arguments.seeds)})
            for arm in ARMS
        )
        gain = with_it.minus(without)
        print(f"{schedule}, {statistic}: {without.mean:.1f}, gain {gain.mean:+.1f} [{gain.low:+.1f}, {gain.high:+.1f}]")


if __name__ == "__main__":
    main()
