"""The files of a folder or an archive, read into memory: nothing is ever written where an archive says."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

from feddecorr.arrays import read_at_most
from feddecorr.errors import UserError

LARGEST_TOTAL = 2 << 30
"""Bytes that an archive may unpack to; the largest of the data sets' own stays below a fourth of it."""

LARGEST_FILE = 256 << 20
MOST_FILES = 400_000

COMPRESSED: dict[bytes, Callable[[Path], io.BufferedIOBase | io.RawIOBase]] = {
    b"\x1f\x8b": gzip.GzipFile,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"BZh": bz2.BZ2File,
}
"""What opens a compressed tar, by the first bytes of the file."""

Wanted = Callable[[str], bool]
"""Says of a file's name (with the folders it lies in) whether its content is needed."""


def collect(path: Path, wanted: Wanted) -> dict[str, bytes]:
    """Return the wanted files of a folder, a tar (plain, gz, xz, bz2) or a zip, by name."""
    try:
        if path.is_dir():
            return dict(_folder(path, wanted))
        with path.open("rb") as file:
            start = file.read(6)
        if start.startswith(b"PK"):
            return dict(_zip(path, wanted))
        return dict(_tar(path, start, wanted))
    except (UserError, MemoryError):
        raise
    except Exception as error:  # a broken archive can raise anything at all; an encrypted one says so
        if not path.exists():
            raise UserError(f"{path}: there is no such file or folder") from error
        kind = "folder" if path.is_dir() else f"tar or zip, or cut off ({path.stat().st_size:,} bytes)"
        raise UserError(f"{path}: not a readable {kind}: {error}") from error


def gunzip(name: str, content: bytes) -> bytes:
    """Return the content of a gz file, which may be of any size up to the limit."""
    try:
        with gzip.open(io.BytesIO(content)) as file:
            unpacked = file.read(LARGEST_FILE + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{name}: not a gz file, or cut off ({len(content):,} bytes): {error}") from error
    if len(unpacked) > LARGEST_FILE:
        raise UserError(f"{name}: unpacks to more than {LARGEST_FILE:,} bytes")
    return unpacked


class _Bounded(io.RawIOBase):
    """A stream that ends in an error when it turns out to be too long."""

    def __init__(self, source: io.BufferedIOBase | io.RawIOBase, path: Path) -> None:
        self._source = source
        self._path = path
        self._left = LARGEST_TOTAL

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        content = self._source.read(size)
        self._left -= len(content)
        if self._left < 0:
            raise _too_much(self._path)
        return content


def _folder(path: Path, wanted: Wanted) -> Iterator[tuple[str, bytes]]:
    for file in sorted(path.rglob("*")):
        name = file.relative_to(path).as_posix()
        if wanted(name) and file.is_file():
            if file.stat().st_size > LARGEST_FILE:
                raise UserError(f"{file}: larger than {LARGEST_FILE:,} bytes")
            yield name, file.read_bytes()


def _tar(path: Path, start: bytes, wanted: Wanted) -> Iterator[tuple[str, bytes]]:
    opener = next((opener for magic, opener in COMPRESSED.items() if start.startswith(magic)), io.FileIO)
    with opener(path) as source, tarfile.open(fileobj=_Bounded(source, path), mode="r|") as archive:
        for count, member in enumerate(archive):
            plain = member.isreg() or member.isdir()
            _check(path, member.name, member.size, count=count, plain=plain)
            if member.isreg() and wanted(_tidy(member.name)):
                file = archive.extractfile(member)
                content = bytes(read_at_most(file, member.size)) if file else b""
                if len(content) != member.size:
                    raise tarfile.ReadError(f"{member.name} is cut off")
                yield _tidy(member.name), content


def _zip(path: Path, wanted: Wanted) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        if sum(member.file_size for member in archive.infolist()) > LARGEST_TOTAL:
            raise _too_much(path)
        for count, member in enumerate(archive.infolist()):
            mode = member.external_attr >> 16
            plain = not stat.S_IFMT(mode) or stat.S_ISREG(mode) or stat.S_ISDIR(mode)
            _check(path, member.filename, member.file_size, count=count, plain=plain)
            if not member.is_dir() and wanted(_tidy(member.filename)):
                with archive.open(member) as file:
                    yield _tidy(member.filename), bytes(read_at_most(file, member.file_size + 1))


def _tidy(name: str) -> str:
    return PurePosixPath(name).as_posix()


def _check(path: Path, name: str, size: int, *, count: int, plain: bool) -> None:
    """Refuse what no data set's own archive holds."""
    place = PureWindowsPath(name)  # knows both kinds of slashes, and drives
    if place.anchor or ".." in place.parts:
        raise UserError(f"{path}: refused, for '{name}' would lie outside of the archive's own folder")
    if not plain:
        raise UserError(f"{path}: refused, for '{name}' is a link or a device")
    if size > LARGEST_FILE:
        raise UserError(f"{path}: refused, for '{name}' unpacks to more than {LARGEST_FILE:,} bytes")
    if count >= MOST_FILES:
        raise UserError(f"{path}: refused, for it holds more than {MOST_FILES:,} files")


def _too_much(path: Path) -> UserError:
    return UserError(f"{path}: refused, for it unpacks to more than {LARGEST_TOTAL:,} bytes")
