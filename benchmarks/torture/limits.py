"""Runs that run out of something: a clear error that says what helps, what is finished is kept, and resume goes on.

    python -m benchmarks.torture.limits [--limits NAME ...] [--record FILE]

Limits are set for the process of the command alone: sizes of files, numbers of open files, address space; a full disk
is a small tmpfs, which needs the right to mount.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.recording import write_record
from benchmarks.torture.small_runs import WORDS, outcome

LONG = ["rounds=30", "method=scaffold", "model.widths=[32,64]"]


@contextmanager
def nothing(_: Path) -> Iterator[None]:
    """Change nothing outside of the process."""
    yield


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Let the folder be a disk of 300 kilobytes, and a larger one when it is left."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(folder)], check=True)
    try:
        yield
        subprocess.run(["mount", "-o", "remount,size=64m", str(folder)], check=True)
    except BaseException:
        subprocess.run(["umount", str(folder)], check=True)
        raise


@dataclass(frozen=True)
class Limit:
    """What is limited, and what the error has to name."""

    says: str
    set_limits: Callable[[], None] = lambda: None
    around: Callable[[Path], Any] = nothing
    words: tuple[str, ...] = ()


def limit(what: int, value: int) -> Callable[[], None]:
    """Return what sets a limit in the new process."""
    return lambda: resource.setrlimit(what, (value, value))


LIMITS = {
    "file size": Limit("ulimit -f", limit(resource.RLIMIT_FSIZE, 40_000)),
    "open files": Limit("ulimit -n", limit(resource.RLIMIT_NOFILE, 24), words=("engine=pool",)),
    "memory": Limit("memory", limit(resource.RLIMIT_AS, 3 << 30), words=("model.widths=[2048,4096]",)),
    "disk": Limit("make room on that disk", around=small_disk),
}


def torture(name: str, folder: Path) -> dict[str, Any]:
    """Run under the limit and without; return how it ended, what was said, and whether the rest was right."""
    chosen, disk = LIMITS[name], folder / name.replace(" ", "-")
    disk.mkdir()
    out, never = disk / "run", folder / f"{name}-never"
    words = [*WORDS, *LONG, *chosen.words]
    command = [sys.executable, "-m", "feddecorr"]
    with chosen.around(disk):
        began = time.perf_counter()
        failed = subprocess.run(
            [*command, "run", *words, "--out", str(out)],
            preexec_fn=chosen.set_limits, capture_output=True, text=True, check=False,
        )  # fmt: skip
        seconds = time.perf_counter() - began
    last = failed.stderr.strip().splitlines()[-1].replace(f"{disk}/", "")  # which is nowhere else
    found: dict[str, Any] = {"exit code": failed.returncode, "says": last, "seconds": round(seconds, 1)}
    found["clear"] = failed.returncode == 1 and last.startswith("error: ") and chosen.says in failed.stderr
    if name != "memory":  # which no limit lifted gives to this network
        resumed = ["resume", str(out)] if (out / "experiment.json").exists() else ["run", *words, "--out", str(out)]
        after = subprocess.run([*command, *resumed], capture_output=True, check=False)
        whole = subprocess.run([*command, "run", *words, "--out", str(never)], capture_output=True, check=False)
        found["same after resume"] = after.returncode == whole.returncode == 0 and outcome(out) == outcome(never)
    if os.path.ismount(disk):
        subprocess.run(["umount", str(disk)], check=True)
    shutil.rmtree(disk, ignore_errors=True)
    return found


def main() -> None:
    """Limit, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limits", nargs="+", choices=sorted(LIMITS), default=list(LIMITS))
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        found = {name: torture(name, Path(place)) for name in arguments.limits}
    for name, row in found.items():
        print(f"{name}: {row}")
    if arguments.record:
        write_record(arguments.record, found)
    sys.exit(not all(row["clear"] and row.get("same after resume", True) for row in found.values()))


if __name__ == "__main__":
    main()
