"""Runs that are killed at random moments: the main process, a worker, or both; all end with the same bits.

    python -m benchmarks.torture.random_kills [--kills 200] [--seed 0] [--record FILE]

A run by FedAvg, SCAFFOLD or MOON, serial or with a pool, is started as a command and killed by SIGKILL after a random
part of the time that an undisturbed one takes; then it is resumed, which may be killed, too. Whenever a run is finished
it is compared with the undisturbed one, and the next one begins. No process may outlive its command. At the end, one
more start sweeps the temporary folder, which must then be empty. Commands are forks of this process, so that the time
goes into runs, not into imports.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import psutil

import feddecorr.runs.pipeline  # noqa: F401 - so that forks have it
from benchmarks.recording import write_record
from benchmarks.torture.small_runs import WORDS, leftovers, outcome
from feddecorr.paper.commands import main as feddecorr_command

METHODS = ("fedavg", "scaffold", "moon")
ENGINES = ("serial", "pool")
VICTIMS = ("main", "worker", "both")
LONG = ["rounds=12", "training.epochs=4"]
GIVE_UP = 600
"""Seconds after which a run that was not killed has hung."""


def command(words: list[str]) -> None:
    """Be the command, without its output, and the leader of a group of processes."""
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    sys.argv = ["feddecorr", *words]
    feddecorr_command()


def start(out: Path, method: str, engine: str) -> ForkProcess:
    """Begin or continue a run."""
    words = [*WORDS, *LONG, f"method={method}", f"engine={engine}"]
    going = ["resume", str(out)] if (out / "experiment.json").exists() else ["run", *words, "--out", str(out)]
    process = multiprocessing.get_context("fork").Process(target=command, args=(going,))
    process.start()
    return process


def undisturbed(out: Path, method: str, engine: str) -> float:
    """Do a run from its beginning to its end, and return how long that took."""
    began = time.perf_counter()
    process = start(out, method, engine)
    process.join(GIVE_UP)
    if process.exitcode != 0:
        raise RuntimeError(f"a run by {method} with engine={engine} ended with {process.exitcode}")
    return time.perf_counter() - began


def kill(process: ForkProcess, victim: str, chance: random.Random) -> str:
    """Kill the main process, one that it started, or all; return whom, for there may be only the first."""
    others = psutil.Process(process.pid).children(recursive=True)
    if not others:
        victim = "main"
    if victim == "worker":
        others[chance.randrange(len(others))].kill()
    elif victim == "both" and process.pid:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    return victim


def orphans(group: int) -> bool:
    """Return whether processes of a command live on, some seconds after its end."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.1)
    return True


def torture(kills: int, seed: int, folder: Path) -> dict[str, Any]:
    """Kill so often; return how often runs were killed and compared, and which went wrong."""
    chance = random.Random(seed)
    temporary = folder / "t"
    temporary.mkdir()
    tempfile.tempdir = os.environ["TMPDIR"] = str(temporary)
    expected, long = {}, {}
    for engine in ENGINES:
        for method in METHODS:
            out = folder / f"{method}-{engine}"
            long[method, engine] = undisturbed(out, method, engine)
            expected[method] = outcome(out)
    killed: Counter[str] = Counter()
    compared: Counter[str] = Counter()
    wrong, outlived = [], 0
    while killed.total() < kills:
        method, engine, out = chance.choice(METHODS), chance.choice(ENGINES), folder / "run"
        finished = False
        while not finished:
            process = start(out, method, engine)
            if killed.total() < kills:
                process.join(chance.uniform(0, long[method, engine]))
                if process.is_alive():
                    killed[kill(process, chance.choice(VICTIMS), chance)] += 1
                    print(f"kill {killed.total()} of {kills}", file=sys.stderr)
            process.join(GIVE_UP)
            if process.is_alive():
                raise RuntimeError(f"a run by {method} with engine={engine} hangs after kill {killed.total()}")
            outlived += orphans(process.pid or 0)
            finished = process.exitcode == 0
        compared[f"{method}, {engine}"] += 1
        if outcome(out) != expected[method] or leftovers(out):
            wrong.append([method, engine, killed.total()])
        shutil.rmtree(out)
    undisturbed(folder / "last", "fedavg", "pool")
    return {
        "kills": killed.total(),
        "killed": dict(killed),
        "runs compared": compared.total(),
        "compared": dict(compared),
        "wrong": wrong,
        "commands that processes outlived": outlived,
        "left in the temporary folder": [file.name for file in temporary.iterdir()],
    }


def main() -> None:
    """Kill, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="t") as place:
        found = torture(arguments.kills, arguments.seed, Path(place))
    print(", ".join(f"{name}: {value}" for name, value in found.items()))
    if arguments.record:
        write_record(arguments.record, found)
    sys.exit(any(found[name] for name in ("wrong", "commands that processes outlived", "left in the temporary folder")))


if __name__ == "__main__":
    main()
