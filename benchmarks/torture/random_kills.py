"""Runs that are killed at random moments: the main process, a worker, or both; all end with the same bits.

    python -m benchmarks.torture.random_kills [--kills 200] [--seed 0] [--record FILE]

A run by FedAvg, SCAFFOLD or MOON, serial or with a pool, is started as a command and killed by SIGKILL after a random
time; then it is resumed, which may be killed, too. Whenever a run is finished it is compared with the undisturbed one,
and the next one begins. At the end, one more start sweeps the temporary folder, which must then be empty.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks.recording import write_record
from benchmarks.torture.small_runs import WORDS, leftovers, outcome

METHODS = ("fedavg", "scaffold", "moon")
VICTIMS = ("main", "worker", "both")
LONG = ["rounds=12", "training.epochs=4"]


def start(out: Path, method: str, engine: str, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Begin a run or go on with it."""
    words = [*WORDS, *LONG, f"method={method}", f"engine={engine}"]
    command = ["run", *words, "--out", str(out)] if not (out / "experiment.json").exists() else ["resume", str(out)]
    return subprocess.Popen(
        [sys.executable, "-m", "feddecorr", *command],
        env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def kill(process: subprocess.Popen[bytes], victim: str, chance: random.Random) -> bool:
    """Kill the main process, one that it started, or all; tell whether there was one."""
    try:
        others = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return False
    if victim == "worker" and others:
        others[chance.randrange(len(others))].kill()
    elif victim == "both":
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    return True


def torture(kills: int, seed: int, folder: Path) -> dict[str, Any]:
    """Kill so often; return how often runs were killed and compared, and which went wrong."""
    chance = random.Random(seed)
    temporary = folder / "t"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    expected = {}
    for method in METHODS:
        assert start(folder / method, method, "serial", environment).wait() == 0
        expected[method] = outcome(folder / method)
    done, compared, wrong = 0, 0, []
    while done < kills:
        method, engine, out = chance.choice(METHODS), chance.choice(("serial", "pool")), folder / "run"
        finished = False
        while not finished:
            process = start(out, method, engine, environment)
            if done < kills:
                with_luck = chance.uniform(0, 20)
                try:
                    process.wait(timeout=with_luck)
                except subprocess.TimeoutExpired:
                    done += kill(process, chance.choice(VICTIMS), chance)
                    print(f"kill {done} of {kills}", file=sys.stderr)
            finished = process.wait() == 0
        compared += 1
        if outcome(out) != expected[method] or leftovers(out):
            wrong.append([method, engine, done])
        shutil.rmtree(out)
    assert start(folder / "last", "fedavg", "pool", environment).wait() == 0
    time.sleep(1)
    return {
        "kills": done,
        "runs compared": compared,
        "wrong": wrong,
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
    sys.exit(bool(found["wrong"] or found["left in the temporary folder"]))


if __name__ == "__main__":
    main()
