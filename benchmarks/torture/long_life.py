"""A week in an hour: thousands of small rounds with a resume now and then; nothing grows, nothing is left.

    python -m benchmarks.torture.long_life [--rounds 2000] [--between 100] [--record FILE]

Rounds with partial participation, local evaluation, a tracker and a pool. Every process does `between` rounds and is
followed by the next, which resumes. After each, memory, open files, threads and pieces of shared memory of the last
round are compared with those of the tenth, and the temporary folder and that of shared memory are looked at. At the
end, one more process is killed with all its workers, and the next start must leave nothing of it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks.recording import write_record
from benchmarks.torture.small_runs import WORDS
from feddecorr.settings.flat import parse_settings

EARLY = 10
"""The round of a process whose figures the later ones are compared with: all has been used once by then."""

GROWTH = 16 << 20
"""Bytes that memory may grow from then on: allocators are not exact."""


COUNTS = ("files", "threads", "shared memory")
"""What may not grow at all."""

SHARED = Path("/dev/shm")  # noqa: S108 - nothing is put there


def segments(process: psutil.Process) -> set[str]:
    """Return which pieces of shared memory a process sees."""
    maps = Path(f"/proc/{process.pid}/maps").read_text()
    return set(re.findall(r" (\d+) +(?:/dev/shm/|/memfd:)", maps))


def part(out: Path, rounds: int) -> None:
    """Go on up to that round in this process, and print what it uses, as JSON."""
    from feddecorr.config.overrides import read_overrides  # noqa: PLC0415
    from feddecorr.runs.pipeline import ensure  # noqa: PLC0415 - only here

    words = ["participation=0.5", "method=scaffold", "evaluation.clients=true", "evaluation.every=5", "engine=pool"]
    more = ["engine.workers=2", "trackers=tensorboard", f"rounds={rounds}"]
    experiment, options = parse_settings(read_overrides([*WORDS, *words, *more]))
    seen = []
    for _ in ensure(experiment, options, out):
        family = [psutil.Process(), *psutil.Process().children(recursive=True)]
        seen.append(
            {
                "memory": sum(process.memory_full_info().uss for process in family),
                "files": sum(process.num_fds() for process in family),
                "threads": sum(process.num_threads() for process in family),
                "shared memory": len(set().union(*map(segments, family))),
            }
        )
    print(json.dumps([seen[min(EARLY, len(seen) - 1)], seen[-1]]))


def start(out: Path, number: int, temporary: Path) -> subprocess.Popen[bytes]:
    """Begin a part in a process (and group) of its own."""
    command = [sys.executable, "-m", "benchmarks.torture.long_life", "--part", str(out), str(number)]
    return subprocess.Popen(
        command, env={**os.environ, "TMPDIR": str(temporary)}, stdout=subprocess.PIPE, start_new_session=True
    )


def names(folder: Path) -> list[str]:
    """Return what is in a folder."""
    return [file.name for file in folder.iterdir()]


def shared_by(group: int) -> list[str]:
    """Return what is in the folder of shared memory by the name of that process: PyTorch's names tell."""
    return [file.name for file in SHARED.iterdir() if f"_{group}_" in file.name]


def torture(rounds: int, between: int) -> dict[str, Any]:
    """Go through all rounds; return what grew, and what was left."""
    parts, grown, left = [], [], []
    with tempfile.TemporaryDirectory(prefix="t") as place:
        out, temporary = Path(place) / "run", Path(place) / "t"
        temporary.mkdir()
        for number in range(between, rounds + 1, between):
            process = start(out, number, temporary)
            printed, _ = process.communicate()
            if process.returncode:
                raise RuntimeError(f"the part up to round {number} ended with {process.returncode}, see above")
            early, late = json.loads(printed)
            parts.append(late)
            wrong = late["memory"] > early["memory"] + GROWTH or any(late[name] > early[name] for name in COUNTS)
            grown += [{"round": number, "early": early, "late": late}] if wrong else []
            left += [*names(temporary), *shared_by(process.pid)]
            print(f"round {number} of {rounds}: {late}", file=sys.stderr)
        size = sum(file.stat().st_size for file in out.rglob("*") if file.name != "rounds.jsonl")
        after_kill = killed(out, rounds + between, temporary)
    steady = max(each["memory"] for each in parts) <= parts[0]["memory"] + GROWTH
    return {
        "rounds": rounds, "grown": grown, "left": left, "left after a kill": after_kill, "steady": steady,
        "bytes of the run": size, "parts": parts,
    }  # fmt: skip


def killed(out: Path, number: int, temporary: Path) -> list[str]:
    """Kill a process with its workers in the middle of its rounds; return what is left after one more start."""
    process = start(out, number, temporary)
    lines = len((out / "rounds.jsonl").read_bytes().splitlines())
    while len((out / "rounds.jsonl").read_bytes().splitlines()) < lines + EARLY:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    if not names(temporary):
        raise RuntimeError("the killed process had nothing in the temporary folder: nothing was tried")
    start(out, lines + 2 * EARLY, temporary).communicate()
    return [*names(temporary), *shared_by(process.pid)]


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
    sys.exit(bool(found["grown"] or found["left"] or found["left after a kill"] or not found["steady"]))


if __name__ == "__main__":
    main()
