"""The paper's claims on real images: the studies of the small scale in their order, and the records of their runs.

    python -m benchmarks.reproduction [--out studies/small] [--record results/small.jsonl] [--jobs N]

A seed is complete in the studies of a step before the next one begins, and what the record holds is not done again,
so that the same command goes on after any stop and on any machine. It takes a night on two cores;
`feddecorr reproduce --list --scale small` says how long each study takes. The record is written after every study.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

STEPS: tuple[tuple[int, tuple[str, ...]], ...] = (
    (3, ("rounds", "collapse", "mitigation", "stability")),
    (5, ("rounds", "collapse")),
    (3, ("decorrelation", "classes", "beta", "clients")),
    (3, ("cifar10",)),
    (1, ("dying",)),
    (3, ("architectures", "epochs", "loss-scale")),
    (3, ("many-classes",)),
    (3, ("dying", "norms", "swing", "averaging")),
    (1, ("rivals",)),
)
"""How many seeds of which studies: more seeds before more settings."""


def feddecorr(*words: object) -> int:
    """Run a command of the same environment, and return its exit code."""
    return subprocess.run([sys.executable, "-m", "feddecorr", *map(str, words)], check=False).returncode


def main() -> None:
    """Do what is missing, and keep its records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("studies/small"))
    parser.add_argument("--record", type=Path, default=Path("results/small.jsonl"))
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    failed = []
    for seeds, studies in STEPS:
        for count in range(1, seeds + 1):
            for study in studies:
                known = ["--known", arguments.record] if arguments.record.exists() else []
                words = ["--scale", "small", "--seeds", count, "--jobs", arguments.jobs, "--out", arguments.out]
                if feddecorr("reproduce", study, *words, *known):
                    failed.append(f"{study} with {count} seeds")
                kept = [path for path in (arguments.record, arguments.out / "runs") if path.exists()]
                feddecorr("records", *kept, "-o", arguments.record)
    sys.exit("these failed: " + ", ".join(failed) if failed else 0)


if __name__ == "__main__":
    main()
