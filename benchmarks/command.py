"""How long a command takes to begin and to end, as ratios to a program that does nothing but `import torch`.

    python -m benchmarks.command [--turns 5] [--record results/command.json]

The command is `feddecorr run` with one tiny round. Its start is from the call to the line that tells of that round; its
end is from there until the process is gone and nobody holds its output open any more, neither worker nor server
process. The other program tells when it has imported, and ends. All take turns; the least of each counts.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.recording import write_record

TINY = ["data=digits", "model=mlp", "training.epochs=1", "rounds=1"]
IMPORT = "import torch"
ENGINES = ("serial", "pool")


def begin_and_end(command: list[str], reported: str) -> tuple[float, float]:
    """Return the seconds until a program writes those words to standard error, and from there to its end."""
    started = now = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:  # until nobody holds it open
            if reported in line:
                now = time.perf_counter()
    if process.returncode or now == started:
        raise RuntimeError(f"{command} ended with {process.returncode}, and printed '{reported}': {now != started}")
    return now - started, time.perf_counter() - now


def measure(turns: int) -> dict[str, Any]:
    """Return the least seconds of all, and the ratios."""
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in (IMPORT, *ENGINES)}
    for _ in range(turns):
        for name, measured in seconds.items():
            with tempfile.TemporaryDirectory() as folder:
                code = f"{IMPORT}, sys; print('done', file=sys.stderr, flush=True)"
                words = ["-m", "feddecorr", "run", *TINY, f"engine={name}", "--out", f"{folder}/run"]
                command, reported = (["-c", code], "done") if name == IMPORT else (words, "round 1/1")
                measured.append(begin_and_end([sys.executable, *command], reported))
        print(*(f"{name} {each[-1][0]:.2f} + {each[-1][1]:.2f} s" for name, each in seconds.items()), file=sys.stderr)
    start, end = ({name: min(pair[part] for pair in each) for name, each in seconds.items()} for part in (0, 1))
    return {
        "start over import torch": {name: round(start[name] / start[IMPORT], 4) for name in ENGINES},
        "end over import torch": {name: round(end[name] / end[IMPORT], 4) for name in ENGINES},
        "seconds of the start": start,
        "seconds of the end": end,
    }


def main() -> None:
    """Measure, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    found = measure(arguments.turns)
    for what, numbers in found.items():
        print(f"{what}: " + ", ".join(f"{name} {value:.3f}" for name, value in numbers.items()))
    if arguments.record:
        write_record(arguments.record, {"turns": arguments.turns, **found})


if __name__ == "__main__":
    main()
