"""The same readers under a fuzzer that looks at which lines of ours an input reaches, and goes on from new ones.

    python -m benchmarks.torture.guided_inputs [--count 10000] [--readers NAME ...] [--record FILE]

Needs `pip install atheris`. Every reader is a process of its own, with whole inputs to begin with. What it may do is
what `benchmarks.torture.broken_inputs` says; beyond that, an attempt to start a program is a failure at once. An input
that did any harm is printed, so that it can become a test.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.recording import write_record
from benchmarks.torture.readers import READERS
from benchmarks.turns import environment


def torture(name: str, count: int) -> dict[str, Any]:
    """Start the process of a reader; return what it went through, and what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        command = [sys.executable, "-m", "benchmarks.torture.guided_reader", name, str(count), folder]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, errors="replace", check=False)
        kept = [file.read_bytes() for file in place.glob("*-*") if file.is_file()]
        outside = [file.name for file in place.iterdir() if file.is_dir() and file.name not in ("inside", "corpus")]
    tried = [int(number) for number in re.findall(r"^#(\d+)\s", done.stderr, re.M)]
    reached = [int(number) for number in re.findall(r"cov: (\d+)", done.stderr)]
    found = {
        "asked": int(asked[0]) if (asked := re.findall(r"^asked (\d+)$", done.stdout, re.M)) else count,
        "inputs": max(tried, default=0),
        "reached at first": min(reached, default=0),
        "reached": max(reached, default=0),
    }
    wrong = [] if done.returncode == 0 else [done.stderr[-4000:], *map(repr, kept)]
    return {**found, "outside": outside, "wrong": wrong}


def main() -> None:
    """Torture, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--readers", nargs="+", choices=sorted(READERS), default=sorted(READERS))
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    found = {}
    for name in arguments.readers:
        found[name] = torture(name, arguments.count)
        print(f"{name:20} {found[name]}", flush=True)
    if arguments.record:
        write_record(arguments.record, {"readers": found})
    sys.exit(any(row["wrong"] or row["outside"] or row["inputs"] < row["asked"] for row in found.values()))


if __name__ == "__main__":
    main()
