"""What hostile clients among ten do to each robust rule and method.

    python -m benchmarks.hostile_clients [--seeds 3] [--methods NAME …] [--settings KEY=VALUE …]
        [--record results/hostile_clients.json] [--again ATTACK …]

Ten clients learn the digits for 20 rounds; those with the lowest numbers are hostile. For each method, rule, attack and
number of hostile clients: the test accuracy, the mean of the last five rounds. FedAvg is attacked by one to four
clients, SCAFFOLD and FedDyn by two. A run that ends early has the accuracy None. Rules are set up for two hostile
clients, whatever their number is. What the record holds is not measured again, but for the attacks that are named.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from benchmarks.recording import write_record
from feddecorr.config.overrides import read_overrides
from feddecorr.errors import RunError
from feddecorr.runs.pipeline import run
from feddecorr.settings.flat import parse_settings

LAST = 5
KEPT = 10
"""Runs after which the record is written."""

WORDS = [
    "data=digits", "clients=10", "partition=dirichlet", "partition.alpha=1", "model=mlp", "model.widths=[64]",
    "training.epochs=2", "training.lr=0.1", "rounds=20", "missing=continue", "evaluation.every=20",
    f"evaluation.final={LAST}",
]  # fmt: skip
TOGETHER = ["training.clients_per_batch=10"]
NORMALIZED = ["model.norm=batch"]
"""Statistics are there to be attacked with BatchNorm alone, whose clients train one by one."""

RULES = {
    "mean": [],
    "median": ["transforms.median.name=median"],
    "trimmed mean": ["transforms.trimmed_mean.share=0.2"],
    "geometric median": ["transforms.geometric_median.name=geometric_median"],
    "Krum": ["transforms.krum.hostile=2"],
    "multi-Krum": ["transforms.krum.hostile=2", "transforms.krum.keep=6"],
    "clipping": ["transforms.clip.clipping_norm=1"],
}
NOBODY = "nobody"
NORMAL = "nobody (BatchNorm)"
ATTACKS = ("scaled", "flipped", "alie", "ipm", "labels", "statistics", "extra", "examples")
COUNTS = {"fedavg": (1, 2, 3, 4), "scaffold": (2,), "feddyn": (2,)}
EXTRA = ("scaffold",)
"""Methods that send more than weights."""


class Cell(NamedTuple):
    """What a run is about."""

    method: str
    rule: str
    attack: str
    hostile: int
    seed: int

    @property
    def key(self) -> str:
        """Its name in the record."""
        return "/".join(map(str, self))

    def words(self) -> list[str]:
        """Return the settings of the run."""
        hostile = {"clients": self.hostile, "sends": self.attack} if self.hostile else {}
        attack = [f"transforms.attack.{name}={value}" for name, value in hostile.items()]
        model = NORMALIZED if self.attack in (NORMAL, "statistics") else TOGETHER
        return [*WORDS, *model, f"method={self.method}", *attack, *RULES[self.rule], f"seed={self.seed}"]

    def accuracy(self, settings: Sequence[str]) -> float | None:
        """Return the mean accuracy of the last rounds; None where the run ended before."""
        try:
            records = list(run(*parse_settings(read_overrides([*self.words(), *settings]))))
        except RunError:
            return None
        return round(statistics.fmean(record.accuracy or 0.0 for record in records[-LAST:]), 4)


def cells(seeds: int, methods: Sequence[str]) -> Iterator[Cell]:
    """Return all of them, seed by seed, so that those of a part are of all kinds."""
    for seed, method, attack, rule in product(range(seeds), methods, (NOBODY, NORMAL, *ATTACKS), RULES):
        if attack != "extra" or method in EXTRA:
            for hostile in COUNTS[method] if attack in ATTACKS else (0,):
                yield Cell(method, rule, attack, hostile, seed)


def main() -> None:
    """Measure what is missing, and print the means over seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", nargs="+", default=list(COUNTS), choices=list(COUNTS))
    parser.add_argument("--settings", nargs="*", default=[], metavar="KEY=VALUE", help="further settings of the runs")
    parser.add_argument("--record", type=Path)
    parser.add_argument("--again", nargs="+", default=[], choices=[NOBODY, NORMAL, *ATTACKS], help="measure these anew")
    arguments = parser.parse_args()
    wanted = list(cells(arguments.seeds, arguments.methods))
    known = _read(arguments.record)
    found = {cell: known[cell.key] for cell in wanted if cell.key in known and cell.attack not in arguments.again}
    missing, started = [cell for cell in wanted if cell not in found], time.perf_counter()
    for done, cell in enumerate(missing, start=1):
        found[cell] = cell.accuracy(arguments.settings)
        left = (time.perf_counter() - started) / done * (len(missing) - done) / 60
        print(f"{done} of {len(missing)} runs, {left:.0f} minutes left: {cell.key} {found[cell]}", file=sys.stderr)
        if arguments.record and (done % KEPT == 0 or done == len(missing)):
            reported = {"settings": [*WORDS, *arguments.settings], "seeds": arguments.seeds, "rounds averaged": LAST}
            ordered = {cell.key: found[cell] for cell in wanted if cell in found}
            write_record(arguments.record, {**reported, "accuracy": ordered})
    for method in arguments.methods:
        for attack, hostile in dict.fromkeys((c.attack, c.hostile) for c in wanted if c.method == method):
            means = [
                _mean([found[Cell(method, rule, attack, hostile, seed)] for seed in range(arguments.seeds)])
                for rule in RULES
            ]
            print(f"{method:10}{attack:20}{hostile}" + "".join(f"{mean:8.3f}" for mean in means))


def _read(file: Path | None) -> dict[str, float | None]:
    known: dict[str, float | None] = json.loads(file.read_text())["accuracy"] if file and file.exists() else {}
    return known


def _mean(accuracies: Sequence[float | None]) -> float:
    return statistics.fmean(accuracy or 0.0 for accuracy in accuracies)


if __name__ == "__main__":
    main()
