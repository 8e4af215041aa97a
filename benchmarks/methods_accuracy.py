"""Whether every method learns: accuracy on the digits, Dirichlet alpha 0.5, all options at their defaults.

    python -m benchmarks.methods_accuracy [METHOD[,SETTING=VALUE …] …] [--seeds 2] [--rounds 12]
        [--settings KEY=VALUE …] [--record FILE.json]

Each run is `feddecorr run method=NAME … seed=S rounds=R`; a setting without a dot is an option of the method.
Under BatchNorm the accuracy swings from round to round, so that the mean of the last five rounds is compared. The
second number is the same of the average of the last two rounds' models, which FedExP's authors report.
Runs that the record holds are not done again.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

import torch

from benchmarks.recording import write_record
from feddecorr.config.overrides import read_overrides
from feddecorr.core.randomness import threads
from feddecorr.core.states import State
from feddecorr.engines.processes import keep_freed_memory
from feddecorr.methods import METHODS
from feddecorr.runs.pipeline import run
from feddecorr.server.federation import Simulation
from feddecorr.settings.flat import parse_settings

LAST = 5
CURVES_OF_RUNS = "accuracy after each round"
CURVES = ("last model", "mean of last two models")


def measure(words: list[str]) -> dict[str, list[float]]:
    """Return the accuracy after each round, of the model and of its average with the one before."""
    experiment, options = parse_settings(read_overrides([*words, "engine=pool", "evaluation.every=1000"]))
    simulation = Simulation(experiment)
    states = [record.state for record in run(experiment, options)]
    pairs = zip(states, states[:1] + states, strict=False)
    means = [{name: (now[name] + before[name]) / 2 for name in now} for now, before in pairs]
    return {
        "last model": [accuracy(simulation, state) for state in states],
        "mean of last two models": [accuracy(simulation, state) for state in means],
    }


@threads(1)
@torch.no_grad()
def accuracy(simulation: Simulation, state: State) -> float:
    """Return the share of the test images that the model gets right."""
    model = simulation.task.build_model().eval()
    model.load_state_dict(state)
    test = simulation.dataset.test
    right = model(simulation.dataset.normalize(test.pixels)).argmax(1) == test.labels
    return round(float(right.float().mean()), 4)


def main() -> None:
    """Measure, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", default=list(METHODS.table), metavar="METHOD")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--settings", nargs="*", default=[], metavar="KEY=VALUE", help="further settings of the runs")
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    keep_freed_memory()
    curves: dict[str, dict[str, list[float]]] = {}
    if arguments.record and arguments.record.exists():
        curves = json.loads(arguments.record.read_text())[CURVES_OF_RUNS]
    ends: dict[str, list[dict[str, float]]] = {}
    for seed in range(arguments.seeds):
        for contestant in dict.fromkeys(arguments.methods):
            name, *options = contestant.split(",")
            settings = [option if "." in option.partition("=")[0] else f"method.{option}" for option in options]
            words = " ".join([f"method={name}", *settings, *arguments.settings])
            command = f"feddecorr run {words} seed={seed} rounds={arguments.rounds}"
            if command not in curves:
                curves[command] = measure(command.split()[2:])
                if arguments.record:
                    write_record(arguments.record, {CURVES_OF_RUNS: curves})
            last = {curve: statistics.mean(curves[command][curve][-LAST:]) for curve in CURVES}
            ends.setdefault(words, []).append(last)
    for words, seeds in ends.items():
        numbers = [100 * statistics.mean(seed[curve] for seed in seeds) for curve in CURVES]
        each = ", ".join(f"{100 * seed['last model']:.1f}" for seed in seeds)
        print(f"{words:55} {numbers[0]:5.1f} % (by seed: {each}), mean of two models {numbers[1]:5.1f} %")


if __name__ == "__main__":
    main()
