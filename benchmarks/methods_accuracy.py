"""Whether every method learns: accuracy on the digits, Dirichlet alpha 0.5, all options at their defaults.

    python -m benchmarks.methods_accuracy [METHOD[,SETTING=VALUE …] …] [--seeds 2] [--rounds 12] [--record FILE.json]

Each run is `feddecorr run method=NAME … seed=S rounds=R`; a setting without a dot is an option of the method.
Under BatchNorm the accuracy swings from round to round, so that the mean of the last five rounds is compared. Runs
that the record holds are not done again.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import torch

from feddecorr.experiment import Experiment
from feddecorr.machine import keep_freed_memory
from feddecorr.methods import METHODS
from feddecorr.pipeline import run
from feddecorr.words import read_words

LAST = 5


def measure(words: list[str]) -> list[float]:
    """Return the accuracy after each round."""
    records = run(Experiment.parse(read_words(words)))
    return [round(record.accuracy, 4) for record in records if record.accuracy is not None]


def main() -> None:
    """Measure, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", default=list(METHODS.table), metavar="METHOD")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    keep_freed_memory()
    found: dict[str, Any] = {"torch": torch.__version__, "accuracy after each round": {}}
    if arguments.record and arguments.record.exists():
        found = json.loads(arguments.record.read_text())
    curves: dict[str, list[float]] = found["accuracy after each round"]
    means: dict[str, list[float]] = {}
    for seed in range(arguments.seeds):
        for contestant in dict.fromkeys(["fedavg", *arguments.methods]):
            name, *options = contestant.split(",")
            settings = [option if "." in option.partition("=")[0] else f"method.{option}" for option in options]
            method = [f"method={name}", *settings]
            command = " ".join(["feddecorr run", *method, f"seed={seed}", f"rounds={arguments.rounds}"])
            if command not in curves:
                curves[command] = measure(command.split()[2:])
                if arguments.record:
                    arguments.record.write_text(json.dumps(found, indent=1) + "\n")
            means.setdefault(" ".join(method), []).append(statistics.mean(curves[command][-LAST:]))
    for words, each in means.items():
        gap = statistics.mean(each) - statistics.mean(means["method=fedavg"])
        seeds = ", ".join(f"{100 * accuracy:.1f}" for accuracy in each)
        print(f"{words:50} {100 * statistics.mean(each):5.1f} % ({seeds}), {100 * gap:+.1f} to FedAvg")


if __name__ == "__main__":
    main()
