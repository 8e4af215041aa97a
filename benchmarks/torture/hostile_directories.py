"""Directories of strangers: links, pipes, huge files and names that are the user's, tried with every command.

    python -m benchmarks.torture.hostile_directories [--layouts NAME ...] [--record FILE]

Each layout is tried with each command in a process of its own. Whatever a command does, a home outside of the run must
be the same to the last byte afterwards, and so must be the user's own files in the run's directory; the command ends
with a result, or with exit code 2 and a sentence that names what is wrong, within a minute, and its memory grows by no
more than is said below. Needs Linux, which tells how much memory was used.
"""

from __future__ import annotations

import argparse
import io
import os
import resource
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from benchmarks.recording import write_record
from benchmarks.torture.every_write import apart as in_fork
from benchmarks.torture.small_runs import small_experiment
from feddecorr.paper.commands import main as feddecorr_command
from feddecorr.runs.pipeline import run

SECONDS = 60
MEMORY = 1 << 30
"""Bytes by which a command's memory may grow: it trains, draws and reads lines of up to 256 MiB."""

Tree = dict[str, bytes | str | None]
Plant = Callable[[Path, Path], str]
"""Makes a run's directory hostile, with an eye on a home; returns the name that is wrong."""

PARTS = [
    "experiment.json", "environment.json", "federation.json", "roster.safetensors", "rounds.jsonl",
    "weights.safetensors", "server", "server/2.safetensors", "clients", "clients/0", "clients/0/2.safetensors",
    "previous", "previous/weights.safetensors", "previous/clients", "previous/clients/0",
]  # fmt: skip
FILES = [part for part in PARTS if "." in part]
PRECIOUS = {
    ".bashrc": b"alias ll=ls\n",
    "notes.txt": b"mine\n",
    "models/1.safetensors": b"years of work",
    "models/clients/0/1.safetensors": b"more years",
}


def tree(folder: Path) -> Tree:
    """Return all there is in a folder, to the last byte, without following links."""

    def content(path: Path) -> bytes | str | None:
        if path.is_symlink():
            return str(path.readlink())
        return path.read_bytes() if path.is_file() and path.stat().st_size < 1 << 20 else None

    return {str(path.relative_to(folder)): content(path) for path in sorted(folder.rglob("*"))}


def leads_away(name: str) -> Plant:
    """Let a part of the run lie elsewhere, among things of the user's, and a link lead there."""

    def plant(out: Path, home: Path) -> str:
        target = home / "linked" / Path(name).name
        target.parent.mkdir()
        (out / name).rename(target)
        (out / name).symlink_to(target)
        return name

    return plant


def replaces(name: str, make: Callable[[Path], object]) -> Plant:
    """Put something else where a file of the run should be."""

    def plant(out: Path, _: Path) -> str:
        (out / name).unlink()
        make(out / name)
        return name

    return plant


def sparse(path: Path) -> None:
    """Make a file of 4 TiB that takes no room."""
    with path.open("wb") as file:
        file.truncate(1 << 42)


def listening(path: Path) -> None:
    """Make a socket."""
    here = Path.cwd()
    os.chdir(path.parent)  # the path of a socket has to be short
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    finally:
        os.chdir(here)


def linked_folder(name: str) -> Plant:
    """Let a folder of a tracker lead to what is the user's."""

    def plant(out: Path, home: Path) -> str:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).symlink_to(home / "models")
        return name

    return plant


def planted_lock(out: Path, home: Path) -> str:
    """Let the lock be a file of the user's."""
    (out / ".lock").unlink(missing_ok=True)
    (out / ".lock").symlink_to(home / "notes.txt")
    return ".lock"


def guessed_temporary_names(out: Path, home: Path) -> str:
    """Where names of temporary files can be guessed, they lead to the user's files."""
    for name in FILES:
        file = out / name
        for guess in (f".{file.name}.{os.getpid()}", f".{file.name}.tmp", f"{file.name}.tmp"):
            file.with_name(guess).symlink_to(home / "notes.txt")
    return "is a symbolic link"


def own_files_among_the_runs(out: Path, _: Path) -> str:
    """Files of the user's lie in the run's own folders, some of them hidden."""
    names = [".env", "server/.keep", "server/mine.safetensors", "clients/notes.txt", "previous/clients/mine/a.txt"]
    names += [f"{folder}/.a.0123456789abcdef.tmp" for folder in (".", "server", "clients/0", "previous", "tensorboard")]
    for name in names:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text("mine")
    return ""


LAYOUTS: dict[str, Plant] = {
    **{f"link in place of {name}": leads_away(name) for name in PARTS},
    **{f"FIFO in place of {name}": replaces(name, os.mkfifo) for name in FILES},
    **{f"huge {name}": replaces(name, sparse) for name in FILES},
    "socket in place of rounds.jsonl": replaces("rounds.jsonl", listening),
    "folder in place of weights.safetensors": replaces("weights.safetensors", Path.mkdir),
    "tensorboard leads away": linked_folder("tensorboard"),
    "a folder in tensorboard leads away": linked_folder("tensorboard/inner"),
    "the lock is a link": planted_lock,
    "guessed temporary names": guessed_temporary_names,
    "own files": own_files_among_the_runs,
}

COMMANDS = {
    "resume": ["resume", "{out}", "rounds=3", "trackers=tensorboard"],
    "show": ["show", "{out}"],
    "report": ["report", "{out}", "-o", "{place}/report.html"],
    "diagnose": ["diagnose", "{out}", "--clients", "all"],
    "export": ["export", "{out}", "--to", "safetensors", "-o", "{place}/model.safetensors"],
    "track": ["export", "{out}", "--to", "tensorboard"],
}
OVER_FOLDERS = {
    "records": ["records", "{runs}", "-o", "{place}/records.jsonl"],
    "table": ["table", "{runs}"],
    "export": ["export", "{runs}", "-o", "{place}/table.csv"],
}


def make_home(home: Path) -> None:
    """Write what is precious to somebody."""
    for name, content in PRECIOUS.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(content)


def owned(out: Path) -> Tree:
    """Return the user's own files in a run's directory."""
    return {name: text for name, text in tree(out).items() if text == b"mine"}


def apart(words: list[str], said: Path) -> tuple[int, int]:
    """Give the command in a process of its own; return how that ended, below 0 by a signal, and its growth in bytes."""
    child = os.fork()
    if child:
        _, status, used = os.wait4(child, 0)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return os.waitstatus_to_exitcode(status), max(0, used.ru_maxrss - before) << 10
    signal.alarm(SECONDS)
    sys.argv = ["feddecorr", *words]
    code: Any = 1
    with said.open("w") as file, redirect_stderr(file), redirect_stdout(io.StringIO()):
        try:
            feddecorr_command()
        except SystemExit as end:
            code = end.code or 0
        except BaseException as error:  # that is what is looked for
            file.write(f"{type(error).__name__}: {error}")
    os._exit(int(code))


def torture(layout: str, command: str, *, template: Path, place: Path) -> str:
    """Try one of each; return what went wrong, which is nothing."""
    out, home = place / "runs" / "a", place / "home"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(template, out)
    make_home(home)
    wrong = LAYOUTS[layout](out, home)
    before, mine = tree(home), owned(out)
    words = [word.format(out=out, place=place, runs=out.parent) for word in COMMANDS[command]]
    code, grown = apart(words, place / "said")
    said = (place / "said").read_text()
    faults = {
        "changed what lies outside": tree(home) != before,
        "changed what is the user's": not mine.items() <= owned(out).items(),
        f"ended with {code}: {said[-300:]}": code not in (0, 2),
        f"did not name what is wrong: {said[-300:]}": code == 2 and wrong not in said,
        f"took {grown} bytes": grown > MEMORY,
    }
    return "; ".join(fault for fault, is_there in faults.items() if is_there)


def main() -> None:
    """Try all, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layouts", nargs="+", choices=sorted(LAYOUTS), default=list(LAYOUTS))
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    wrong: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        template = Path(folder) / "template"
        in_fork(lambda: list(run(*small_experiment("method=scaffold", "rounds=2", "participation=1"), template)))
        for layout in arguments.layouts:
            for command in COMMANDS:
                if fault := torture(layout, command, template=template, place=Path(folder) / "place"):
                    wrong[f"{layout}: {command}"] = fault
            print(layout, file=sys.stderr)
    found = {"layouts": len(arguments.layouts), "commands": len(COMMANDS), "wrong": wrong}
    print(", ".join(f"{name}: {value}" for name, value in found.items()))
    if arguments.record:
        write_record(arguments.record, found)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
