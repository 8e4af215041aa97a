"""What `feddecorr plan` says against what runs take on this processor, and what the paper's studies cost.

    python -m benchmarks.plan [--turns 2] [--record results/plan.json]
    python -m benchmarks.plan --studies cifar10 cifar100 tinyimagenet [--record results/study_costs.json]

Each setting is planned and run in turn, in one process with one thread. Seconds are those that the processor spent on
it, so that other work on the machine counts little; the least of the turns counts on both sides. Studies are at the
scale `paper`, on a card.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.recording import write_record
from feddecorr.cli.sweep import StudyPlan
from feddecorr.config.overrides import read_overrides
from feddecorr.paper.commands.plan import costs_of, sentence, total
from feddecorr.paper.scales import PAPER
from feddecorr.paper.studies import STUDIES
from feddecorr.runs.estimate import cost_of
from feddecorr.runs.hardware import CARDS, find_hardware
from feddecorr.runs.pipeline import run, simulate
from feddecorr.settings.flat import parse_settings

COMMON = "data=synthetic data.test=100 partition=homogeneous clients=2 rounds=2 training.epochs=1"
SETTINGS = {
    "MobileNetV2": "model=mobilenetv2 data.train=128 rounds=1",
    "MobileNetV2 at half width, MOON": "model=mobilenetv2 model.width=0.5 method=moon data.train=128",
    "ResNet18 at a quarter of its width, FedDecorr": "model=resnet18 model.width=0.25 regularizers=feddecorr "
    "data.train=256",
    "ResNet18 at half width, SCAFFOLD": "model=resnet18 model.width=0.5 method=scaffold data.train=256",
    "ResNet18 at a quarter of its width, bf16": "model=resnet18 model.width=0.25 training.precision=bf16 "
    "data.train=256",
    "ResNet20, FedProx, batch 32": "model=resnet20 method=fedprox training.batch=32 data.train=256",
    "convnet, MOON and FedDecorr": "model=convnet method=moon regularizers=feddecorr data.train=1024 training.epochs=2",
    "convnet, FedNTD": "model=convnet method=fedntd data.train=1024",
    "LeNet, FedDyn": "model=lenet method=feddyn data.train=2048",
    "perceptron": "model=mlp model.widths=[200,200] data.train=2048",
    "transformer": "model=transformer data.train=1024",
}
"""What is planned and run."""

CARD = "a100"


def compare(words: str, turns: int) -> dict[str, float]:
    """Return the seconds that were planned and those that a run took, and their ratio."""
    experiment, options = parse_settings(read_overrides([*COMMON.split(), *words.split()]))
    planned, taken = [], []
    for _ in range(turns):
        planned.append(cost_of(experiment, options, find_hardware("cpu")).seconds)
        simulation = simulate(experiment, options)
        began = time.process_time()
        for _record in run(experiment, options, through=simulation):
            pass
        taken.append(time.process_time() - began)
    return {"planned": min(planned), "taken": min(taken), "ratio": min(planned) / min(taken)}


def cost_of_studies(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return what each of these studies costs at the paper's scale, and which time it takes on a card."""
    found = {}
    for name in names:
        study = STUDIES[name]
        rows = costs_of(StudyPlan([study], "paper", PAPER.seeds, Path(), lambda _: ""), CARDS[CARD])
        if rows:
            memory = max(row["device_memory"] for row in rows)
            found[name] = {**total(rows), "largest_device_memory": memory, "place": study.place}
            print(f"{name}: {sentence(rows, CARDS[CARD])}", flush=True)
    return found


def main() -> None:
    """Measure, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--studies", nargs="+", choices=STUDIES, help="only count what these studies cost")
    arguments = parser.parse_args()
    if arguments.studies:
        record = {"assumed": CARDS[CARD].assumes, "studies": cost_of_studies(arguments.studies)}
        if arguments.record:
            write_record(arguments.record, record)
        return
    found: dict[str, Any] = {"turns": arguments.turns, "settings": {}}
    for title, words in SETTINGS.items():
        found["settings"][title] = compare(words, arguments.turns)
        planned, taken, ratio = found["settings"][title].values()
        print(f"{title:46} planned {planned:6.2f} s, took {taken:6.2f} s: {ratio:.2f}", flush=True)
    if arguments.record:
        write_record(arguments.record, found)


if __name__ == "__main__":
    main()
