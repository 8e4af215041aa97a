"""Downloads that go on where they broke off, and count only when size and digest are right."""

from __future__ import annotations

import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from feddecorr.errors import RunError

ATTEMPTS = 5
"""So often in a row may a transfer break off without a new byte before it is given up."""

PAUSE = 2.0
"""Seconds to wait after the first attempt without a new byte; twice as many after the second, and so on."""

TIMEOUT = 30.0
"""Seconds without a byte after which a connection counts as broken."""

CHUNK = 1 << 18

Progress = Callable[[str, int, int], None]
"""Is told what is being done, how much of it is done, and how much there is (0 if that can't be told)."""


@dataclass(frozen=True)
class Remote:
    """A file on the network: the same under each of its addresses."""

    urls: tuple[str, ...]
    size: int
    md5: str

    @property
    def name(self) -> str:
        """The name of the file itself."""
        return self.urls[0].rpartition("/")[2]


def download(remote: Remote, folder: Path, progress: Progress) -> Path:
    """Return the file, downloaded into the folder unless it lies there; what is there half is completed."""
    target = folder / remote.name
    if target.exists():
        return target
    part = folder / f"{remote.name}.part"
    retries = remote.urls[:1] if part.exists() else ()  # what lies there may be the beginning of another file
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


def _complete(url: str, part: Path, remote: Remote, progress: Progress) -> None:
    fruitless = 0
    while _size(part) < remote.size:
        before = _size(part)
        try:
            _transfer(url, part, remote, progress)
        except urllib.error.HTTPError as error:
            if error.code != http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
                raise  # the server answered, and will not answer differently in a second
            part.unlink(missing_ok=True)
        except (ConnectionError, TimeoutError, http.client.HTTPException):
            pass  # broken off: what has come so far is kept
        fruitless = 0 if _size(part) > before else fruitless + 1
        if fruitless == ATTEMPTS:
            raise ConnectionError(
                f"broke off after {_size(part):,} of {remote.size:,} bytes, which are kept: try again later"
            )
        time.sleep(PAUSE * fruitless)


def _transfer(url: str, part: Path, remote: Remote, progress: Progress) -> None:
    """Append what is missing to the part, or all of it if the server knows no ranges."""
    have = _size(part)
    headers = {"User-Agent": "feddecorr", **({"Range": f"bytes={have}-"} if have else {})}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - the addresses are written in this package
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310 - see above
        goes_on = answer.status == http.client.PARTIAL_CONTENT
        if goes_on and not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            raise OSError(f"sent the range {answer.headers.get('Content-Range')} when asked for all from byte {have}")
        length = answer.headers.get("Content-Length")
        if not goes_on and length is not None and int(length) != remote.size:
            raise OSError(f"offers {int(length):,} bytes, expected {remote.size:,}")
        with part.open("ab" if goes_on else "wb") as file:
            _pour(answer, file, remote, progress)


def _pour(answer: IO[bytes], file: IO[bytes], remote: Remote, progress: Progress) -> None:
    done = file.seek(0, os.SEEK_END)
    while chunk := answer.read(CHUNK):
        file.write(chunk)
        done += len(chunk)
        progress(f"downloading {remote.name}", done, remote.size)
        if done > remote.size:
            return  # more than there should be: the check will say so


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _problem(part: Path, remote: Remote) -> str | None:
    size = _size(part)
    if size != remote.size:
        return f"{size:,} bytes came, expected {remote.size:,}"
    with part.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    return None if found == remote.md5 else f"the file has md5 {found}, expected {remote.md5}"
