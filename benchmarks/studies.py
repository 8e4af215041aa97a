"""What the runner of studies adds to its runs, how busy it keeps the cores, and whether its time left is right.

    python -m benchmarks.studies [--runs 20] [--turns 3] [--record results/studies.json]
    python -m benchmarks.studies --on ray [--runs 24] [--turns 3] [--record results/studies_on_ray.json]

Four things, which take turns; the median of the turns counts:

- overhead: equal runs by the runner on one core, over the same runs one after another in a process that does
  nothing else. The runner's time is all of it, from the call to its end, with the start of its processes.
- busy: processor time of the runner's processes with two cores, over twice the time on the clock.
- side by side: runs side by side on two cores, over the same runs one after another, each with a pool of two.
- time left: the estimate after the first run was done, against what it was in the end; the worst of all
  estimates before the last twentieth.

With `--on ray`, two things: how busy a Ray of two cores is from the first run that began to the end, and its time over
that of the runner, both without Ray's start.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from benchmarks.recording import write_record
from feddecorr.config.experiment import Experiment
from feddecorr.config.overrides import read_overrides
from feddecorr.engines.pool import Pool
from feddecorr.engines.processes import context, keep_freed_memory
from feddecorr.results.study import Arm
from feddecorr.runs.pipeline import run
from feddecorr.settings.flat import parse_settings
from feddecorr.settings.options import RunOptions
from feddecorr.sweeps.executor import Executor
from feddecorr.sweeps.jobs import plan
from feddecorr.sweeps.on_ray import OnRay
from feddecorr.sweeps.runner import Local
from feddecorr.sweeps.status import Status

CORES = 2
WORDS = [
    "data=digits", "clients=10", "partition=dirichlet", "partition.alpha=0.5", "model=convnet", "training.epochs=2",
    "rounds=10",
]  # fmt: skip
LIMITS = {"busy on Ray": 0.9, "overhead": 0.02, "busy": 0.9, "time left": 0.3}


def experiments(count: int, words: Sequence[str]) -> list[tuple[Experiment, RunOptions]]:
    """Return equal runs: they differ in their seeds."""
    return [parse_settings(read_overrides([*WORDS, *words, f"seed={seed}"])) for seed in range(count)]


def by_themselves(given: Sequence[tuple[Experiment, RunOptions]]) -> float:
    """Return the seconds of runs one after another in a process of their own, without its start."""
    ours, theirs = context().Pipe()
    process = context().Process(target=_one_after_another, args=(theirs, given))
    process.start()
    seconds: float = ours.recv()
    process.join()
    return seconds


def _one_after_another(connection: Connection, given: Sequence[tuple[Experiment, RunOptions]]) -> None:
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        for number, experiment in enumerate(given):
            for _ in run(*experiment, Path(folder) / str(number)):
                pass
        connection.send(time.monotonic() - started)


def by_the_runner(
    given: Sequence[tuple[Experiment, RunOptions]], cores: int, executor: Executor | None = None
) -> dict[str, Any]:
    """Return the seconds of the runner, the processor time of its processes, and what it reported of the time left."""
    reported: list[tuple[float, Status]] = []
    used: list[float] = []

    def tell(status: Status) -> None:
        reported.append((time.monotonic(), status))
        used.append(processor_time())

    before = processor_time()
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        jobs = plan([Arm({}, *each) for each in given], Path(folder))
        failures = (executor or Local(jobs=cores)).run(jobs, tell)
        ended = time.monotonic()
    assert not failures, failures
    left = [(ended - now, status.left) for now, status in reported if status.done and status.left is not None]
    errors = [abs(said - true) / true for true, said in left if true > 0.05 * (ended - started)]
    first = next(number for number, (_, status) in enumerate(reported) if status.running)
    begun, used_before = reported[first][0], used[first]
    return {
        "seconds": ended - started,
        "seconds of runs": ended - begun,
        "busy with runs": (used[-1] - used_before) / (cores * (ended - begun)),
        "busy": (used[-1] - before) / (cores * (ended - started)),
        "time left": max(errors, default=0.0),
    }


def processor_time() -> float:
    """Return the seconds that this process's own processes have computed; those that ended do not count."""
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system
    return total


def one_turn(given: Sequence[tuple[Experiment, RunOptions]]) -> dict[str, float]:
    """Measure everything once."""
    few = given[: 2 * CORES]
    pooled = [(experiment, options.model_copy(update={"engine": Pool(workers=CORES)})) for experiment, options in few]
    alone = by_the_runner(given, 1)["seconds"]
    own = by_themselves(given)
    both = by_the_runner(given, CORES)
    beside = by_the_runner(few, CORES)["seconds"]
    return {
        "overhead": alone / own - 1,
        "busy": both["busy"],
        "side by side over pool": beside / by_themselves(pooled),
        "time left": both["time left"],
    }


def one_turn_on_ray(given: Sequence[tuple[Experiment, RunOptions]]) -> dict[str, float]:
    """Measure Ray and the runner once."""
    ray = by_the_runner(given, CORES, OnRay(jobs=CORES))
    own = by_the_runner(given, CORES)
    return {"busy on Ray": ray["busy with runs"], "Ray over runner": ray["seconds of runs"] / own["seconds of runs"]}


def main() -> None:
    """Measure, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="KEY=VALUE", help="settings of the runs")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--on", choices=["local", "ray"], default="local")
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_intermixed_args()
    given = experiments(arguments.runs, arguments.words)
    by_themselves(given[:1])  # to warm up
    turns: dict[str, list[float]] = {}
    for turn in range(1, arguments.turns + 1):
        for name, value in {"local": one_turn, "ray": one_turn_on_ray}[arguments.on](given).items():
            turns.setdefault(name, []).append(value)
        print(f"turn {turn} of {arguments.turns}:", {name: round(values[-1], 3) for name, values in turns.items()},
              file=sys.stderr)  # fmt: skip
    middle = {name: median(values) for name, values in turns.items()}
    says: dict[str, Callable[[float], str]] = {
        "overhead": lambda value: f"the runner adds {100 * value:.1f} % to the time of {arguments.runs} runs",
        "busy": lambda value: f"{CORES} cores are {100 * value:.0f} % busy",
        "side by side over pool": lambda value: f"runs side by side take {value:.2f} of their time with a pool",
        "busy on Ray": lambda value: f"{CORES} cores are {100 * value:.0f} % busy on Ray",
        "Ray over runner": lambda value: f"runs on Ray take {value:.2f} of their time with the runner",
        "time left": lambda value: f"the time left was wrong by {100 * value:.0f} % at most",
    }
    for name, value in middle.items():
        print(says[name](value) + (f" (limit: {LIMITS[name]:g})" if name in LIMITS else ""))
    if arguments.record:
        settings = [*WORDS, *arguments.words]
        write_record(
            arguments.record, {"settings": settings, "runs": arguments.runs, "turns": turns, "medians": middle}
        )


if __name__ == "__main__":
    main()
