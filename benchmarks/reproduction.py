"""The paper's claims on real images: the studies of a scale in their order, and the records of their runs.

    python -m benchmarks.reproduction [--scale small|many] [--out FOLDER] [--record FILE] [--jobs N]

Seeds are complete in the studies of a step before the next one begins, and what the record holds is not done again,
so that the same command goes on after any stop and on any machine. It takes a night on two cores;
`feddecorr reproduce --list --scale small` says how long each study takes. The record is written after every study.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

Plan = Sequence[tuple[Sequence[int], Sequence[str]]]

ABOUT_ACCURACY = ("rounds", "classes", "beta", "decorrelation", "cifar10", "clients", "architectures", "epochs")
ABOUT_RANK = ("collapse", "mitigation")
"""The studies that answer claims."""

PLANS: dict[str, Plan] = {
    "small": (
        ((1, 2, 3), ("rounds", "collapse", "mitigation", "stability")),
        ((4, 5), ("rounds", "collapse")),
        ((1, 2, 3), ("decorrelation", "classes", "beta", "clients")),
        ((1, 2, 3), ("cifar10",)),
        ((1,), ("dying",)),
        ((1, 2, 3), ("architectures", "epochs", "loss-scale")),
        ((1, 2, 3), ("many-classes",)),
        ((2, 3), ("dying",)),
        ((1, 2, 3), ("norms", "swing", "averaging")),
        ((1,), ("rivals",)),
    ),
    "many": (
        ((10,), (*ABOUT_RANK, *ABOUT_ACCURACY)),
        ((3,), ("many-classes", "loss-scale", "norms", "swing")),
        ((1,), ("rivals",)),
        ((20,), (*ABOUT_RANK, *ABOUT_ACCURACY)),
        ((60,), ("beta",)),
    ),
}
"""By scale: the first so many seeds, one number after the other, of which studies. More seeds before more settings."""


def feddecorr(*words: object) -> int:
    """Run a command of the same environment, and return its exit code."""
    return subprocess.run([sys.executable, "-m", "feddecorr", *map(str, words)], check=False).returncode


def main() -> None:
    """Do what is missing, and keep its records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=PLANS, default="small")
    parser.add_argument("--out", type=Path, help="studies/SCALE unless given")
    parser.add_argument("--record", type=Path, help="results/SCALE.jsonl unless given")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    scale = arguments.scale
    out = arguments.out or Path("studies") / scale
    record = arguments.record or Path("results") / f"{scale}.jsonl"
    failed = []
    for seeds, studies in PLANS[scale]:
        for count in seeds:
            for study in studies:
                known = ["--known", record] if record.exists() else []
                words = ["--scale", scale, "--seeds", count, "--jobs", arguments.jobs, "--out", out]
                if feddecorr("reproduce", study, *words, *known):
                    failed.append(f"{study} with {count} seeds")
                kept = [path for path in (record, out / "runs") if path.exists()]
                feddecorr("records", *kept, "-o", record)
    sys.exit("these failed: " + ", ".join(failed) if failed else 0)


if __name__ == "__main__":
    main()
