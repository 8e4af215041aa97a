"""What crosses between host and device, and what is read back: per step, round and evaluation, on the stand-in device.

    python -m benchmarks.device_traffic [--record results/device_traffic.json]

The device is that of the tests (`tests/helpers/stand_in.py`), which computes on the processor behind a wall. Each
number is a difference of two runs: more steps, one more round, one more evaluation. Counts are exact, on any machine.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from benchmarks.recording import write_record
from benchmarks.turns import ROOT
from feddecorr.config.overrides import read_overrides
from feddecorr.runs.pipeline import run
from feddecorr.settings.flat import parse_settings

sys.path.append(str(ROOT / "tests" / "helpers"))
from stand_in import NAME, traffic

COMMON = (
    "data=synthetic data.train=128 data.test=64 data.channels=3 data.size=8 data.augment=crop,flip clients=2 "
    "partition=homogeneous model=convnet model.widths=[8,16] training.batch=16 training.epochs=1 rounds=2 "
    f"evaluation.every=1000 device={NAME}"
)
METHODS = {
    "FedAvg": "",
    "MOON": "method=moon",
    "SCAFFOLD": "method=scaffold",
    "FedDecorr": "regularizers=feddecorr",
}
STEPS = 4
"""Local steps of a client in an epoch: 64 images in batches of 16."""

KINDS = ("in", "bytes in", "out", "bytes out", "reads")
"""Transfers to the device and from it, their bytes, and values read back."""

Traffic = dict[str, float]


def crossings(*words: str) -> Counter[str]:
    """Return what a run moves and reads."""
    experiment, options = parse_settings(read_overrides([*COMMON.split(), *words]))
    traffic.clear()
    for _ in run(experiment, options):
        pass
    return traffic.copy()


def difference(more: Counter[str], less: Counter[str], count: int) -> Traffic:
    """Return the difference of two runs, for each of so many steps, clients or evaluations."""
    return {kind: (more[kind] - less[kind]) / count for kind in KINDS}


def measure(*words: str) -> dict[str, Traffic]:
    """Return what one local step, one round of a client and one evaluation move and read.

    Steps are compared at the same number of epochs, in batches of half the size: what chance chooses for an epoch
    crosses once for all its steps, and belongs to the round.
    """
    plain = crossings(*words)
    rounds, client_rounds = crossings(*words, "rounds=3"), 2
    steps = 2 * 2 * STEPS  # of two rounds and two clients, on top of as many
    return {
        "a local step": difference(crossings(*words, "training.batch=8"), plain, steps),
        "a client's round": difference(rounds, plain, client_rounds),
        "an evaluation": difference(crossings(*words, "evaluation.every=1"), plain, 1),
    }


def main() -> None:
    """Measure, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    found = {name: measure(*words.split()) for name, words in METHODS.items()}
    for name, parts in found.items():
        for part, counts in parts.items():
            print(f"{name:10} {part:17}", ", ".join(f"{kind} {count:g}" for kind, count in counts.items()))
    if arguments.record:
        write_record(arguments.record, {"settings": COMMON, "methods": found})


if __name__ == "__main__":
    main()
