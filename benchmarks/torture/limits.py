"""Runs that run out of something: a clear error that says what helps, what is finished is kept, and resume goes on.

    python -m benchmarks.torture.limits [--limits NAME ...] [--record FILE]

Limits are set for the processes of the command alone: sizes of files, numbers of open files, address space; a full
disk is a small tmpfs, a folder that cannot be written to one that is read-only, and there is little shared memory where
/dev/shm is a small one, for the command alone: these need the right to mount.
What is refused before any work ends with exit code 2, all else with 1.
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


def disk(first: str, then: str) -> Callable[[Path], Any]:
    """Return what lets the folder be a disk with these options, and with others when it is left."""

    @contextmanager
    def around(folder: Path) -> Iterator[None]:
        subprocess.run(["mount", "-t", "tmpfs", "-o", first, "tmpfs", str(folder)], check=True)
        try:
            yield
            subprocess.run(["mount", "-o", f"remount,{then}", str(folder)], check=True)
        except BaseException:
            subprocess.run(["umount", str(folder)], check=True)
            raise

    return around


@dataclass(frozen=True)
class Limit:
    """What is limited, and what the error has to name."""

    says: str
    set_limits: Callable[[], None] = lambda: None
    around: Callable[[Path], Any] = nothing
    prefix: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    code: int = 1


def limit(what: int, value: int) -> Callable[[], None]:
    """Return what sets a limit in the new process."""
    return lambda: resource.setrlimit(what, (value, value))


def shared_memory(size: str) -> tuple[str, ...]:
    """Return what starts a command with a /dev/shm of that size, which no other process sees."""
    return ("unshare", "--mount", "sh", "-c", f'mount -t tmpfs -o size={size} tmpfs /dev/shm && exec "$@"', "sh")


WIDE = ("engine=pool", "model.widths=[64,256,512]")

LIMITS = {
    "file size": Limit("ulimit -f", limit(resource.RLIMIT_FSIZE, 40_000)),
    "open files": Limit("ulimit -n", limit(resource.RLIMIT_NOFILE, 24), words=("engine=pool",)),
    "few open files": Limit("ulimit -n", limit(resource.RLIMIT_NOFILE, 16), words=("engine=pool",)),
    "shared memory of 4 MB": Limit("--shm-size=", prefix=shared_memory("4m"), words=WIDE),
    "shared memory of 64 MB": Limit(
        "--shm-size=", prefix=shared_memory("64m"), words=("engine=pool", "model.widths=[64,1024,1024]", "rounds=1")
    ),
    "memory": Limit("memory", limit(resource.RLIMIT_AS, 3 << 30), words=("model.widths=[2048,4096]",)),
    "memory of workers": Limit(
        "memory", limit(resource.RLIMIT_AS, 3 << 30), words=("model.widths=[2048,4096]", "engine=pool")
    ),
    "disk": Limit("make room on that disk", around=disk("size=300k", "size=64m")),
    "disk of workers": Limit("make room on that disk", around=disk("size=300k", "size=64m"), words=("engine=pool",)),
    "read-only folder": Limit("Read-only file system", around=disk("ro", "rw"), code=2),
}


def torture(name: str, folder: Path) -> dict[str, Any]:
    """Run under the limit and without; return how it ended, what was said, and whether the rest was right."""
    chosen, place = LIMITS[name], folder / name.replace(" ", "-")
    place.mkdir()
    out, never = place / "run", folder / f"{name}-never"
    words = [*WORDS, *LONG, *chosen.words]
    command = [sys.executable, "-m", "feddecorr"]
    with chosen.around(place):
        began = time.perf_counter()
        failed = subprocess.run(
            [*chosen.prefix, *command, "run", *words, "--out", str(out)],
            preexec_fn=chosen.set_limits, capture_output=True, text=True, check=False,
        )  # fmt: skip
        seconds = time.perf_counter() - began
    last = failed.stderr.strip().splitlines()[-1].replace(f"{place}/", "")  # which is nowhere else
    found: dict[str, Any] = {"exit code": failed.returncode, "says": last, "seconds": round(seconds, 1)}
    found["clear"] = failed.returncode == chosen.code and last.startswith("error: ") and chosen.says in failed.stderr
    if not name.startswith("memory"):  # which no limit lifted gives to this network
        resumed = ["resume", str(out)] if (out / "experiment.json").exists() else ["run", *words, "--out", str(out)]
        after = subprocess.run([*command, *resumed], capture_output=True, check=False)
        whole = subprocess.run([*command, "run", *words, "--out", str(never)], capture_output=True, check=False)
        found["same after resume"] = after.returncode == whole.returncode == 0 and outcome(out) == outcome(never)
    if os.path.ismount(place):
        subprocess.run(["umount", str(place)], check=True)
    shutil.rmtree(place, ignore_errors=True)
    return found


def main() -> None:
    """Limit, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limits", nargs="+", choices=sorted(LIMITS), default=list(LIMITS))
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = {name: torture(name, Path(folder)) for name in arguments.limits}
    for name, row in found.items():
        print(f"{name}: {row}")
    if arguments.record:
        write_record(arguments.record, found)
    sys.exit(not all(row["clear"] and row.get("same after resume", True) for row in found.values()))


if __name__ == "__main__":
    main()
