"""What clients cost that are registered and seldom drawn: start, memory and rounds with 1000 of them and with more.

    python -m benchmarks.many_clients [--turns 3] [--record results/many_clients.json]

Every client holds one image of 2×2 pixels, and 50 of them play in a round, in one process and in a pool of two. Each
number of clients has a process of its own; they take turns, and the least of each counts. The start is from the
settings to the end of round 1, without the seconds in which the images themselves are drawn. Memory is of all
processes (Linux tells), without the images: pages that processes share count once (PSS), after the last round; and the
most that the main process ever held (RSS).
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

import psutil

from benchmarks.recording import write_record
from benchmarks.turns import environment
from feddecorr.config.overrides import read_overrides
from feddecorr.engines.processes import context
from feddecorr.runs.pipeline import run
from feddecorr.settings.flat import parse_settings

FEW, MANY = 1000, (100_000, 1_000_000)
COHORT, ROUNDS = 50, 12
ENGINES = {"serial": ["engine=serial"], "pool": ["engine=pool", "engine.workers=2"]}
LIMITS = {"seconds more": 2.0, "megabytes more": 150.0, "peak megabytes more": 150.0}
"""Of a million clients, over a thousand."""


def words(clients: int, engine: str) -> list[str]:
    """Return the experiment."""
    return [
        "data=synthetic", f"data.train={clients}", "data.test=100", "data.size=2", "data.channels=1",
        f"clients={clients}", "partition=homogeneous", "partition.minimum=1", f"participation={COHORT / clients}",
        "model=mlp", "training.epochs=1", "evaluation.every=1000", "rounds=1000", *ENGINES[engine],
    ]  # fmt: skip


def together() -> float:
    """Return the megabytes of this process and all below it; pages that they share count once, files not at all."""
    main = psutil.Process()
    return sum(_own_share(process.pid) for process in (main, *main.children(recursive=True))) / 1e3


def _own_share(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    kilobytes = {name.rstrip(":"): int(number) for name, number, _unit in (line.split() for line in lines)}
    return kilobytes["Pss_Anon"] + kilobytes["Pss_Shmem"]


def one(clients: int, engine: str) -> dict[str, float]:
    """Do a run in this process, and return what it took."""
    experiment, options = parse_settings(read_overrides(words(clients, engine)))
    if engine == "pool":
        ready = context().Process(target=int)  # when it has ended, the server process has its imports behind it
        ready.start()
        ready.join()
    started = time.perf_counter()
    images = experiment.data.load().train
    drawing = time.perf_counter() - started
    size = (images.pixels.nbytes + images.labels.nbytes) / 1e6
    del images
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        rounds = run(experiment, options, Path(folder) / "run")
        next(rounds)
        start = time.perf_counter() - started - drawing
        quickest = min(record.seconds for record in islice(rounds, ROUNDS))
        memory = together()
        disk = sum(file.stat().st_size for file in Path(folder).rglob("*.*") if file.is_file())
        rounds.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return {
        "seconds to round 1": start,
        "seconds of a round": quickest,
        "megabytes": memory - size,
        "peak megabytes": peak - size,
        "megabytes on disk": disk / 1e6,
    }


def measure(engine: str, turns: int) -> dict[str, Any]:
    """Let all numbers of clients take turns, and compare the least of each with that of the fewest."""
    sizes = (FEW, *MANY)
    turned: dict[int, list[dict[str, float]]] = {clients: [] for clients in sizes}
    for turn in range(turns):
        for clients in sizes if turn % 2 else reversed(sizes):
            command = [sys.executable, "-m", "benchmarks.many_clients", "--one", str(clients), engine]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment())
            turned[clients].append(json.loads(done.stdout))
            print(f"turn {turn + 1} of {turns}, {engine}, {clients} clients: {done.stdout.strip()}", file=sys.stderr)
    least = {clients: {name: min(each[name] for each in rows) for name in rows[0]} for clients, rows in turned.items()}
    few = least[FEW]
    return {
        str(clients): {
            **{name: round(value, 4) for name, value in numbers.items()},
            "seconds more": round(numbers["seconds to round 1"] - few["seconds to round 1"], 4),
            "megabytes more": round(numbers["megabytes"] - few["megabytes"], 1),
            "peak megabytes more": round(numbers["peak megabytes"] - few["peak megabytes"], 1),
            "ratio of starts": round(numbers["seconds to round 1"] / few["seconds to round 1"], 4),
            "ratio of memory": round(numbers["megabytes"] / few["megabytes"], 4),
            "ratio of rounds": round(numbers["seconds of a round"] / few["seconds of a round"], 4),
        }
        for clients, numbers in least.items()
    }


def main() -> None:
    """Measure, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        clients, engine = arguments.one
        print(json.dumps(one(int(clients), engine)))
        return
    found = {engine: measure(engine, arguments.turns) for engine in ENGINES}
    for engine, table in found.items():
        for clients, numbers in table.items():
            print(f"{engine}, {clients} clients: " + ", ".join(f"{name} {value:g}" for name, value in numbers.items()))
    print("wanted of a million: " + ", ".join(f"{name} at most {limit:g}" for name, limit in LIMITS.items()))
    if arguments.record:
        write_record(arguments.record, {"turns": arguments.turns, **found})


if __name__ == "__main__":
    main()
