"""Runs that are killed at every system call that writes: all of them go on to the bits of the undisturbed run.

    python -m benchmarks.torture.every_write [--step 1] [--methods fedavg scaffold moon] [--record FILE]

A library is loaded into the process that counts what changes files below the run's directory (open, write, fsync,
link, rename, unlink, mkdir and rmdir, also relative to an open folder), and kills by SIGKILL right before the n-th of
it, for n = 1, 2, 3, … until a run comes through. After every kill the run is resumed; its weights and rounds must be
those of a run that was never killed, and nothing may be left over. Needs a C compiler and Linux.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.recording import write_record
from benchmarks.torture.small_runs import leftovers, outcome, small_experiment

SOURCE = Path(__file__).with_name("kill_at_write.c")
BYTES = 8192
"""Of the file in which the counter lies."""


def build(folder: Path) -> Path:
    """Return the library, compiled."""
    library = folder / "kill_at_write.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return library


def apart(work: Callable[[], object]) -> int:
    """Do something in a process (and group) of its own, and return how it ended: 0, or the signal that killed it."""
    child = os.fork()
    if child == 0:
        os.setsid()
        try:
            work()
        except BaseException as error:  # whatever it is, this process ends here
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def torture(method: str, *, step: int, folder: Path) -> dict[str, Any]:
    """Kill at every step-th call; return how many kills there were, and which went wrong."""
    from feddecorr.runs.pipeline import ensure, run  # noqa: PLC0415 - in the process that has the library

    library = ctypes.CDLL(os.environ["LD_PRELOAD"])
    experiment = small_experiment(f"method={method}")
    never, out = folder / f"{method}-never", folder / f"{method}-killed"

    def undisturbed() -> None:
        library.arm(str(never).encode(), ctypes.c_long(-1))
        list(run(*experiment, never))

    def killed(when: int) -> Callable[[], None]:
        def work() -> None:
            library.arm(str(out).encode(), ctypes.c_long(when))
            list(ensure(*experiment, out))

        return work

    assert apart(undisturbed) == 0
    calls = library.count()
    expected, wrong, kills = outcome(never), [], 0
    for when in range(1, calls + 1, step):
        shutil.rmtree(out, ignore_errors=True)
        kills += apart(killed(when)) == -signal.SIGKILL
        if apart(killed(-1)) != 0 or outcome(out) != expected or leftovers(out):
            wrong.append(when)
    return {"calls that write": calls, "kills": kills, "wrong": wrong}


def main(words: Sequence[str] | None = None) -> None:
    """Begin again with the library loaded; then kill, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step", type=int, default=1, help="kill at every N-th call")
    parser.add_argument("--methods", nargs="+", default=["fedavg", "scaffold", "moon"])
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if "KILL_COUNTER" not in os.environ:
            counter = folder / "counter"
            counter.write_bytes(bytes(BYTES))
            environment = {**os.environ, "LD_PRELOAD": str(build(folder)), "KILL_COUNTER": str(counter)}
            command = [sys.executable, "-m", "benchmarks.torture.every_write", *(words or sys.argv[1:])]
            sys.exit(subprocess.run(command, env=environment, check=False).returncode)
        found = {method: torture(method, step=arguments.step, folder=folder) for method in arguments.methods}
    for method, row in found.items():
        verdict = f"WRONG after {row['wrong']}" if row["wrong"] else "all with the bits of the undisturbed run"
        print(f"{method}: killed at {row['kills']} of {row['calls that write']} writing calls, {verdict}")
    if arguments.record:
        write_record(arguments.record, found)
    sys.exit(any(row["wrong"] or not row["kills"] for row in found.values()))


if __name__ == "__main__":
    main()
