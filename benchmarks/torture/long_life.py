"""A week in an hour: thousands of small rounds with a resume now and then; nothing grows, nothing is left.

    python -m benchmarks.torture.long_life [--rounds 2000] [--between 100] [--record FILE]

Rounds with partial participation, local evaluation, a tracker and a pool. Every process does `between` rounds and is
followed by the next, which resumes. After each, memory, open files and threads of the last round are compared with
those of the tenth, and the temporary folder is looked at.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil

from benchmarks.recording import write_record
from benchmarks.torture.small_runs import WORDS

EARLY = 10
"""The round of a process whose figures the later ones are compared with: all has been used once by then."""

GROWTH = 16 << 20
"""Bytes that memory may grow from then on: allocators are not exact."""


def part(out: Path, rounds: int) -> None:
    """Go on up to that round in this process, and print what it uses, as JSON."""
    from feddecorr.runs.pipeline import ensure  # noqa: PLC0415 - only here
    from feddecorr.settings.experiment import Experiment  # noqa: PLC0415
    from feddecorr.settings.words import read_words  # noqa: PLC0415

    words = ["participation=0.5", "method=scaffold", "evaluation.clients=true", "evaluation.every=5", "engine=pool"]
    more = ["engine.workers=2", "trackers=tensorboard", f"rounds={rounds}"]
    experiment = Experiment.parse(read_words([*WORDS, *words, *more]))
    seen = []
    for _ in ensure(experiment, out):
        family = [psutil.Process(), *psutil.Process().children(recursive=True)]
        seen.append(
            {
                "memory": sum(process.memory_full_info().uss for process in family),
                "files": sum(process.num_fds() for process in family),
                "threads": sum(process.num_threads() for process in family),
            }
        )
    print(json.dumps([seen[min(EARLY, len(seen) - 1)], seen[-1]]))


def torture(rounds: int, between: int) -> dict[str, Any]:
    """Go through all rounds; return what grew, and what was left."""
    parts, grown, left = [], [], []
    with tempfile.TemporaryDirectory(prefix="t") as place:
        temporary = Path(place) / "t"
        temporary.mkdir()
        for number in range(between, rounds + 1, between):
            command = [sys.executable, "-m", "benchmarks.torture.long_life", "--part", f"{place}/run", str(number)]
            environment = {**os.environ, "TMPDIR": str(temporary)}
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
            early, late = json.loads(done.stdout)
            parts.append(late)
            wrong = late["memory"] > early["memory"] + GROWTH or late["files"] > early["files"]
            grown += [{"round": number, "early": early, "late": late}] if wrong else []
            left += [file.name for file in temporary.iterdir()]
            print(f"round {number} of {rounds}: {late}", file=sys.stderr)
        size = sum(file.stat().st_size for file in (Path(place) / "run").rglob("*") if file.name != "rounds.jsonl")
    steady = max(each["memory"] for each in parts) <= parts[0]["memory"] + GROWTH
    return {"rounds": rounds, "grown": grown, "left": left, "steady": steady, "bytes of the run": size, "parts": parts}


def main() -> None:
    """Live long, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--between", type=int, default=100)
    parser.add_argument("--part", nargs=2, metavar=("DIR", "ROUNDS"), help=argparse.SUPPRESS)
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    if arguments.part:
        part(Path(arguments.part[0]), int(arguments.part[1]))
        return
    found = torture(arguments.rounds, arguments.between)
    print({name: value for name, value in found.items() if name != "parts"})
    if arguments.record:
        write_record(arguments.record, found)
    sys.exit(bool(found["grown"] or found["left"] or not found["steady"]))


if __name__ == "__main__":
    main()
