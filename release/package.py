"""Build wheel and sdist, and try the wheel as a stranger would: in a fresh environment, far from the sources.

    python -m release.package [--python PROGRAM ...] [--out dist]

The files are checked by twine, and the wheel for its size and for having nothing but the package. For every Python that
is named (by default those of 3.11, 3.12 and 3.13 that are found) an environment is made: the wheel is installed, the
help of every command is asked for and the demonstration runs. Every extra, alone and all together, must resolve there;
these are not installed, for together they are gigabytes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from release.pins import ROOT, pins, write_constraints

LARGEST = 2_000_000
"""Bytes of the wheel."""

VERSIONS = ("3.11", "3.12", "3.13")
COMMANDS = """
import json, typer
from feddecorr.cli import app

def walk(command, words):
    yield words
    for name, inner in getattr(command, "commands", {}).items():
        yield from walk(inner, [*words, name])

print(json.dumps(list(walk(typer.main.get_command(app), []))))
"""


def call(*words: str | Path, cwd: Path = ROOT) -> str:
    """Run a command and return what it printed; one that fails ends all, with what it said."""
    hidden = {"PYTHONPATH", "VIRTUAL_ENV"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run([*map(str, words)], cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def build(out: Path) -> Path:
    """Return the wheel, which is built from the sdist: so nothing is missing there."""
    shutil.rmtree(out, ignore_errors=True)
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", out)  # with the backend that is locked
    files = sorted(out.iterdir())
    call(sys.executable, "-m", "twine", "check", "--strict", *files)
    (wheel,) = out.glob("*.whl")
    for file in files:
        print(f"{file.name}: {file.stat().st_size / 1e6:.2f} MB, fine for twine")
    return wheel


def check_content(wheel: Path) -> None:
    """Refuse a wheel that is too large, or that has files outside of the package and its metadata."""
    if wheel.stat().st_size >= LARGEST:
        raise SystemExit(f"{wheel} has {wheel.stat().st_size} bytes: {LARGEST} are the limit")
    strays = [name for name in zipfile.ZipFile(wheel).namelist() if not name.startswith(("feddecorr/", "feddecorr-"))]
    if strays:
        raise SystemExit(f"{wheel} has {', '.join(strays)} outside of the package")


def interpreters() -> Iterator[Path]:
    """Yield a program for each version that there is: on the path, or where pyenv keeps them."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in VERSIONS:
        found = [*pyenv.glob(f"{version}.*/bin/python{version}"), shutil.which(f"python{version}")]
        working = [Path(each) for each in found if each and _is(each, version)]
        if working:
            yield working[0]
        else:
            print(f"Python {version}: there is none, so it is not tried")


def _is(program: str | Path, version: str) -> bool:
    """Return whether a program runs and is of that version: pyenv leaves names of those that it will not start."""
    ask = [str(program), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    return subprocess.run(ask, capture_output=True, text=True, check=False).stdout.strip() == version


def extras() -> Iterator[str]:
    """Yield each extra that users install, and all of them together."""
    names = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    users = [name for name in names if name not in ("dev", "docs", "examples")]
    yield from users
    yield ",".join(users)


def try_out(wheel: Path, program: Path) -> None:
    """Install and use the wheel in an environment of its own."""
    print(f"{program}: installing", flush=True)
    with tempfile.TemporaryDirectory(prefix="feddecorr-package-") as name:
        place = Path(name)
        call(program, "-m", "venv", place / "env")
        pip = (place / "env/bin/python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
        limits = ("--constraint", write_constraints(place / "constraints.txt", pins()))
        call(*pip, *limits, f"{wheel}[simulation]", cwd=place)
        where = call(place / "env/bin/python", "-c", "import feddecorr; print(feddecorr.__file__)", cwd=place)
        if not where.startswith(str(place)):
            raise SystemExit(f"not the installed package was imported, but {where}")
        commands: list[list[str]] = json.loads(call(place / "env/bin/python", "-c", COMMANDS, cwd=place))
        for words in commands:
            call(place / "env/bin/feddecorr", *words, "--help", cwd=place)
        demo = json.loads(call(place / "env/bin/feddecorr", "demo", "--json", cwd=place))
        if not Path(demo["report"]).is_file():
            raise SystemExit(f"the demonstration left no report: {demo}")
        tried = list(extras())
        for extra in tried:
            call(*pip, *limits, "--dry-run", f"{wheel}[{extra}]", cwd=place)
        print(f"{program}: {len(commands)} commands help, the demonstration runs, {len(tried)} sets of extras resolve")


def main(arguments: Sequence[str] | None = None) -> None:
    """Build, check and try."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", nargs="+", type=Path, help="the interpreters to try")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    chosen = parser.parse_args(arguments)
    wheel = build(chosen.out.resolve())
    check_content(wheel)
    for program in chosen.python or interpreters():
        try_out(wheel, program)


if __name__ == "__main__":
    main()
