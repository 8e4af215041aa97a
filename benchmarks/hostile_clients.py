"""What two hostile clients of ten do to FedAvg, and what each robust mean holds against them.

    python -m benchmarks.hostile_clients [KEY=VALUE ...] [--seeds 3] [--record results/hostile_clients.json]

Ten clients learn the digits. The two with the lowest numbers send, in every round, noise that is a hundred times as
long as their change, their change turned round and ten times as long, or ten times their change. For each rule, the
test accuracy (the mean of the last five rounds, over seeds) without hostile clients and under each attack.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

from benchmarks.recording import write_record
from feddecorr.errors import RunError
from feddecorr.runs.pipeline import run
from feddecorr.settings.experiment import Experiment
from feddecorr.settings.words import read_words

LAST = 5
WORDS = [
    "data=digits", "clients=10", "partition=dirichlet", "partition.alpha=1", "model=mlp", "training.epochs=2",
    "training.lr=0.05", "training.together=auto", "rounds=20", "evaluation.every=20", f"evaluation.final={LAST}",
]  # fmt: skip
RULES = {
    "mean (FedAvg)": [],
    "median": ["transforms.median.name=median"],
    "trimmed mean (0.2)": ["transforms.trimmed_mean.share=0.2"],
    "geometric median": ["transforms.geometric_median.iterations=10"],
    "Krum": ["transforms.krum.hostile=2"],
    "multi-Krum (6)": ["transforms.krum.hostile=2", "transforms.krum.keep=6"],
    "clipping (1)": ["transforms.clip.norm=1"],
}
ATTACKS = {"nobody": 0, "noise": 100, "flipped": 10, "scaled": 10}
"""With the length of a hostile change, as a multiple of the honest one; noise has to be long to do harm."""


def accuracy(words: list[str]) -> float:
    """Return the mean accuracy of the last rounds; 0 where the model has become infinite."""
    try:
        records = list(run(Experiment.parse(read_words([*WORDS, *words]))))
    except RunError:  # an update was not finite
        return 0.0
    return statistics.fmean(record.accuracy or 0.0 for record in records[-LAST:])


def attacked(attack: str) -> list[str]:
    """Return the words that let the attack come first."""
    if attack == "nobody":
        return []
    options = {"clients": 2, "sends": attack, "strength": ATTACKS[attack]}
    return [f"transforms.attack.{name}={value}" for name, value in options.items()]


def main() -> None:
    """Run, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="KEY=VALUE", help="other settings of the runs")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_intermixed_args()
    found: dict[str, dict[str, float]] = {}
    total, done = len(RULES) * len(ATTACKS) * arguments.seeds, 0
    for rule, words in RULES.items():
        found[rule] = {}
        for attack in ATTACKS:
            values = []
            for seed in range(arguments.seeds):
                values.append(accuracy([*attacked(attack), *words, *arguments.words, f"seed={seed}"]))
                done += 1
                print(f"{done} of {total} runs", file=sys.stderr)
            found[rule][attack] = statistics.fmean(values)
    print(f"{'':20}" + "".join(f"{attack:>10}" for attack in ATTACKS))
    for rule, row in found.items():
        print(f"{rule:20}" + "".join(f"{row[attack]:10.3f}" for attack in ATTACKS))
    if arguments.record:
        write_record(arguments.record, {"seeds": arguments.seeds, "rounds averaged": LAST, "accuracy": found})


if __name__ == "__main__":
    main()
