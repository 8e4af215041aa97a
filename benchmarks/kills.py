"""A study that is killed again and again ends like one that never was.

    python -m benchmarks.kills [--kills 10] [--seed 0] [--record results/kills.json]

A sweep of twelve runs is started, and killed with all of its processes by SIGKILL at a random moment after it has
got a little further; so often, and then it is left alone. The tables and the last bit of every run must be those of a
sweep that was never killed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks.recording import write_record

SWEEP = [
    "sweep", "data=digits", "clients=10", "model=convnet", "training.epochs=2", "rounds=12",
    "--over", "method=fedavg,scaffold", "--over", "regularizers=none,feddecorr", "--seeds", "3",
]  # fmt: skip


def start(out: Path, words: Sequence[str]) -> subprocess.Popen[bytes]:
    """Begin or continue the sweep, in a process group of its own."""
    command = [sys.executable, "-m", "feddecorr", *SWEEP, *words, "--out", str(out)]
    return subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def rounds(out: Path) -> int:
    """Return how many rounds of all runs are written down."""
    return sum(file.read_bytes().count(b"\n") for file in out.glob("runs/*/rounds.jsonl"))


def outcome(out: Path) -> dict[str, Any]:
    """Return the tables, and of every run all rounds without their times and the digest of its weights."""
    runs = {}
    for path in sorted((out / "runs").iterdir()):
        lines = [json.loads(line) for line in (path / "rounds.jsonl").read_text().splitlines()]
        weights = sha256((path / "weights.safetensors").read_bytes()).hexdigest()
        runs[path.name] = ([{**line, "seconds": 0} for line in lines], weights)
    tables = {file.name: file.read_text() for file in [out / "sweep.md", *sorted((out / "sweep").iterdir())]}
    return {"runs": runs, "tables": tables}


def kill_at_random(out: Path, words: Sequence[str], chance: random.Random) -> int:
    """Start, wait for some more rounds, kill; return how many rounds there are then."""
    before, some = rounds(out), chance.randrange(1, 12)
    process = start(out, words)
    while process.poll() is None and rounds(out) < before + some:
        time.sleep(0.01)
    time.sleep(chance.uniform(0, 0.3))
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return rounds(out)


def main() -> None:
    """Kill, compare, print, and record if asked to; exit with 1 if anything is different."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="KEY=VALUE", help="other settings of the runs")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_intermixed_args()
    chance = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        killed, never = Path(folder) / "killed", Path(folder) / "never"
        done = []
        for number in range(1, arguments.kills + 1):
            done.append(kill_at_random(killed, arguments.words, chance))
            print(f"kill {number} of {arguments.kills}: {done[-1]} rounds are there", file=sys.stderr)
        ends = [start(out, arguments.words).wait() for out in (killed, never)]
        same = ends == [0, 0] and outcome(killed) == outcome(never)
    print(f"killed {arguments.kills} times: tables and runs are {'the same' if same else 'DIFFERENT'}")
    if arguments.record:
        write_record(arguments.record, {"kills": arguments.kills, "rounds after each": done, "same": same})
    sys.exit(not same)


if __name__ == "__main__":
    main()
