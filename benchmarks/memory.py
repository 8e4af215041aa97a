"""Memory of all processes over many small rounds, which should be flat.

    python -m benchmarks.memory [--rounds 1000] [--record results/memory.json]

Four clients, of which three are sampled, with BatchNorm, SCAFFOLD and FedDecorr, evaluated in every round, in a pool
of two workers and in one process. Counted is the resident memory of each process; pages that processes share count
once for each, whoever else runs on the machine. What matters is how much it grows after the first fifty rounds.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import psutil

from benchmarks.recording import write_record
from feddecorr.config.overrides import read_overrides
from feddecorr.runs.pipeline import run
from feddecorr.settings.flat import parse_settings

WORDS = [
    "data=synthetic", "data.train=200", "data.test=100", "data.size=8", "data.channels=1", "clients=4",
    "participation=0.75", "partition.minimum=5", "model.widths=[8,16]", "method=scaffold", "regularizers=feddecorr",
    "training.epochs=1", "training.batch=16",
]  # fmt: skip
WARM, EVERY = 50, 10


def together() -> float:
    """Return the megabytes of this process and all below it."""
    main = psutil.Process()
    return sum(float(each.memory_info().rss) for each in [main, *main.children(recursive=True)]) / 1e6


def measure(engine: str, rounds: int) -> dict[str, Any]:
    """Run, and look at the memory now and then."""
    seen: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        experiment, options = parse_settings(read_overrides([*WORDS, f"engine={engine}", f"rounds={rounds}"]))
        for record in run(experiment, options, Path(folder) / "run"):
            if record.round >= WARM and record.round % EVERY == 0:
                seen[record.round] = together()
    first = seen[min(seen)]
    return {
        "rounds": rounds,
        "megabytes at round 50": round(first, 1),
        "most after it": round(max(seen.values()), 1),
        "at the end": round(seen[max(seen)], 1),
        "growth": round(max(seen.values()) / first, 4),
    }


def main() -> None:
    """Measure both engines and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1000, help="at least 50")
    parser.add_argument("--record", type=Path, help="JSON file to write")
    chosen = parser.parse_args()
    found = {engine: measure(engine, chosen.rounds) for engine in ("serial", "pool")}
    for engine, row in found.items():
        print(f"{engine}: " + ", ".join(f"{name} {value}" for name, value in row.items()))
    if chosen.record:
        write_record(chosen.record, {"memory": found})


if __name__ == "__main__":
    main()
