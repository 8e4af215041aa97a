"""The paper's claims on real images: does what `results/plan.toml` declares and the records do not hold yet.

    python -m benchmarks.reproduction [--plan FILE] [--out FOLDER] [--scale many] [--jobs N]

Questions come in the order of the plan, seeds in theirs. What the records hold is not done again, so that the same
command continues after any stop and on any machine. The records of a scale, `SCALE.jsonl` next to the plan, are
written after every study. It takes a night or two on two cores.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from feddecorr.paper.claims.evidence import read_plan


def feddecorr(*words: object) -> int:
    """Run a command of the same environment, and return its exit code."""
    return subprocess.run([sys.executable, "-m", "feddecorr", *map(str, words)], check=False).returncode


def main() -> None:
    """Do what is missing, and keep its records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", type=Path, default=Path("results/plan.toml"))
    parser.add_argument("--out", type=Path, default=Path("studies"), help="the runs lie in OUT/SCALE")
    parser.add_argument("--scale", help="the questions of this scale alone")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    failed = []
    for question in read_plan(arguments.plan).questions:
        if arguments.scale not in (None, question.scale):
            continue
        out, record = arguments.out / question.scale, arguments.plan.with_name(f"{question.scale}.jsonl")
        known = ["--known", record] if record.exists() else []
        words = ["--scale", question.scale, "--seeds", question.seeds, "--jobs", arguments.jobs, "--out", out]
        if feddecorr("reproduce", question.study, *words, *known):
            failed.append(f"{question.study} at {question.scale}")
        kept = [path for path in (record, out / "runs") if path.exists()]
        feddecorr("records", *kept, "-o", record)
    sys.exit("these failed: " + ", ".join(failed) if failed else 0)


if __name__ == "__main__":
    main()
