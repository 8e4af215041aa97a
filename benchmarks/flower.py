"""What Flower costs: seconds per round of the engines, start-up, memory, and where Flower's time goes.

    python -m benchmarks.flower [--rounds 20] [--megabytes 0.1,9,100] [--record results/flower.json]

First, ten clients on digits by `serial`, `pool` and `flower`: seconds until the first round is done, seconds of a
later one (the quickest: others may use the machine, whose load is recorded), and the greatest memory of all processes
together (PSS, so that shared pages count once).
Then what Flower's start takes, Ray's with all nodes; the rest of the first round is PyTorch in the actors, and
training. Then one step of two clients with models of growing size, 9 MB of MobileNetV2 among them:
what a round takes beyond the same round by `pool`, with as many workers, is Flower's and Ray's, but for what our own
messages take (to bytes and back, measured alone). What is left at the smallest model is fixed: polling and
processes; what grows is copying.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from benchmarks.recording import write_record
from feddecorr.config.overrides import read_overrides
from feddecorr.core.messages import Broadcast, from_bytes, to_bytes
from feddecorr.flower.engine import start_simulation
from feddecorr.runs.pipeline import run
from feddecorr.server.federation import Simulation
from feddecorr.settings.flat import parse_settings

ENGINES = ("serial", "pool", "flower")
TEN = ["data=digits", "clients=10", "regularizers=feddecorr", "training.epochs=1", "evaluation.every=1000"]
TWO = ["data=digits", "clients=2", "data.train=100", "training.steps=1", "evaluation.every=1000", "rounds=8"]


class Memory(threading.Thread):
    """Looks at the memory of this process and all below it, now and then; as long as it is entered."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most = 0.0
        self._done = threading.Event()

    def run(self) -> None:
        """Look, until it is over."""
        while not self._done.wait(0.5):
            main = psutil.Process()
            self.most = max(self.most, sum(map(_megabytes, [main, *main.children(recursive=True)])))

    def __enter__(self) -> Memory:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self.join()


def _megabytes(process: psutil.Process) -> float:
    try:
        return float(process.memory_full_info().pss) / 1e6
    except psutil.Error:
        return 0.0


def rounds_of(words: list[str]) -> list[float]:
    """Return the moments at which rounds are done, from the start of the run."""
    experiment, options = parse_settings(read_overrides(words))
    start = time.perf_counter()
    return [time.perf_counter() - start for _ in run(experiment, options)]


def compare_engines(rounds: int) -> dict[str, Any]:
    """Measure the three engines one after another."""
    found = {}
    for engine in ENGINES:
        with Memory() as memory:
            moments = rounds_of([*TEN, f"engine={engine}", f"rounds={rounds}"])
        later = [after - before for before, after in pairwise(moments)]
        found[engine] = {
            "first round": round(moments[0], 2),
            "later round": round(min(later), 3),
            "megabytes": round(memory.most),
        }
    return found


def start_of_flower() -> dict[str, float]:
    """Return the seconds until Ray and all nodes answer."""
    experiment, options = parse_settings(read_overrides([*TEN, "engine=flower"]))
    simulation = Simulation(experiment)
    start = time.perf_counter()
    with start_simulation(simulation.shards, options.engine.parallel_jobs(experiment.training.threads)):
        return {"Ray and all nodes": round(time.perf_counter() - start, 2)}


def model_of(megabytes: float) -> list[str]:
    """Return a model of about that size: MobileNetV2 for its nine megabytes, else a wide MLP."""
    if megabytes == 9:
        return ["model=mobilenetv2"]
    width = round((megabytes * 1e6 / 4) ** 0.5)
    return ["model=mlp", f"model.widths=[{width},{width}]"]


def where_time_goes(sizes: list[float]) -> list[dict[str, Any]]:
    """Return, for models of these sizes, seconds of a round by pool and by Flower, and those of our own messages."""
    found = []
    for size in sizes:
        words = [*TWO, *model_of(size)]
        server = Simulation(parse_settings(read_overrides(words))[0]).federation.start()
        broadcast = Broadcast.of(1, server)
        content = to_bytes(broadcast)
        tries = []
        for _ in range(5):
            start = time.perf_counter()
            from_bytes(Broadcast, to_bytes(broadcast))
            tries.append(time.perf_counter() - start)
        ours = 2 * 2 * min(tries)  # there and back, for two clients
        seconds = {}
        for engine in ("pool", "flower"):
            moments = rounds_of([*words, f"engine={engine}", "engine.workers=2"])
            seconds[engine] = min(after - before for before, after in pairwise(moments))
        beyond = seconds["flower"] - seconds["pool"]
        found.append(
            {
                "megabytes": round(len(content) / 1e6, 2),
                **{engine: round(value, 3) for engine, value in seconds.items()},
                "our messages": round(ours, 3),
                "Flower and Ray": round(beyond - ours, 3),
            }
        )
    return found


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="of the three engines; at least 2")
    parser.add_argument("--megabytes", default="0.1,9,100", help="sizes of models")
    parser.add_argument("--record", type=Path, help="JSON file to write")
    chosen = parser.parse_args()
    load = round(os.getloadavg()[0], 1)
    engines = compare_engines(chosen.rounds)
    for engine, row in engines.items():
        print(f"{engine}: " + ", ".join(f"{name} {value}" for name, value in row.items()))
    parts = start_of_flower()
    print("start: " + ", ".join(f"{name} {value}" for name, value in parts.items()))
    sizes = where_time_goes([float(size) for size in chosen.megabytes.split(",") if size])
    for each in sizes:
        print(", ".join(f"{name} {value}" for name, value in each.items()))
    if chosen.record:
        found = {"ten clients": engines, "start of Flower": parts, "two clients, one step": sizes}
        write_record(chosen.record, {"load average before": load, **found})


if __name__ == "__main__":
    main()
