"""Commands without the usual environment: no home, odd locales and paths, narrow terminals, one core, closed output.

    python -m benchmarks.torture.bare_environment [--cases NAME ...] [--record FILE]

Each case runs, resumes and reports a small run with a pool; it must end with the bits of an undisturbed one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.recording import write_record
from benchmarks.torture.small_runs import WORDS, outcome


@dataclass(frozen=True)
class Case:
    """What is different: variables (None takes one away), the folder's name, a command before, closed streams."""

    variables: Mapping[str, str | None] = field(default_factory=dict)
    folder: str = "plain"
    before: Sequence[str] = ()
    closed: bool = False


CASES = {
    "nothing": Case(dict.fromkeys(("HOME", "USER", "LOGNAME", "LANG", "TERM", "XDG_CACHE_HOME", "FEDDECORR_DATA"))),
    "no cache": Case({"HOME": "/proc/nowhere", "XDG_CACHE_HOME": "/proc/nowhere"}),
    "C": Case({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    "Turkish": Case({"LC_ALL": "tr_TR.UTF-8"}),
    "odd path": Case(folder="ein Ordner – дом 家 'x' (1)"),
    "narrow": Case({"COLUMNS": "40", "LINES": "5"}),
    "one core": Case(before=("taskset", "-c", "0")),
    "closed": Case(closed=True),
    "offline": Case(before=("unshare", "--net")),
}


def torture(case: Case, place: Path) -> dict[str, Any]:
    """Run, resume and report; return exit codes and whether the bits are right."""
    folder = place / case.folder
    folder.mkdir(parents=True)
    variables = {**os.environ, **{name: value for name, value in case.variables.items() if value is not None}}
    environment = {name: value for name, value in variables.items() if case.variables.get(name, "") is not None}
    commands = [
        ["run", *WORDS, "rounds=2", "engine=pool", "--out", "run"],
        ["resume", "run", "rounds=3"],
        ["report", "run", "-o", "report.html"],
        ["show", "run"],
    ]
    stream = None if case.closed else subprocess.PIPE
    ended, said = [], ""
    for words in commands:
        done = subprocess.run(
            [*case.before, sys.executable, "-m", "feddecorr", *words],
            cwd=folder, env=environment, stdout=stream, stderr=subprocess.PIPE, check=False,
            preexec_fn=(lambda: os.close(1)) if case.closed else None,
        )  # fmt: skip
        ended.append(done.returncode)
        said += done.stderr.decode(errors="replace")
    expected = [1] * 4 if case.closed else [0] * 4  # there is nowhere to print the result, but all is done
    fine = ended == expected and "Traceback" not in said
    return {"ended": ended, "fine": fine, "outcome": outcome(folder / "run"), "said": said[-500:]}


def main() -> None:
    """Try all cases, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=sorted(CASES), default=list(CASES))
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="t") as place:
        expected = torture(Case(), Path(place) / "expected")["outcome"]
        found = {}
        for name in arguments.cases:
            row = torture(CASES[name], Path(place) / name.replace(" ", "-"))
            found[name] = {**row, "outcome": "the same" if row["outcome"] == expected else "DIFFERENT"}
            print(f"{name}: {found[name]}", file=sys.stderr)
    wrong = [name for name, row in found.items() if not row["fine"] or row["outcome"] != "the same"]
    print(
        f"{len(found) - len(wrong)} of {len(found)} environments are fine"
        + (f", not: {', '.join(wrong)}" * bool(wrong))
    )
    if arguments.record:
        write_record(arguments.record, found)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
