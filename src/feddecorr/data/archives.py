"""The files of a folder or an archive, read into memory: nothing is ever extracted to disk."""

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

from feddecorr.core.limits import MEMBER, MEMBERS, TOTAL, Allowance, brief, check_plain, read_at_most
from feddecorr.errors import UserError

COMPRESSED: dict[bytes, Callable[[Path], io.BufferedIOBase | io.RawIOBase]] = {
    b"\x1f\x8b": gzip.GzipFile,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"BZh": bz2.BZ2File,
}
"""Opens a compressed tar, by the first bytes of the file."""

MemberFilter = Callable[[str], bool]
"""Says whether a file, by its path in the archive, is needed."""


def collect(path: Path, wanted: MemberFilter) -> dict[str, bytes]:
    """Return the wanted files of a folder, a tar (plain, gz, xz, bz2) or a zip, by name."""
    try:
        if path.is_dir():
            return dict(_folder(path, wanted))
        check_plain(path)
        with path.open("rb") as file:
            start = file.read(6)
        allowance = Allowance(path.stat().st_size, most=TOTAL)
        if start.startswith(b"PK"):
            return dict(_zip(path, wanted, allowance))
        return dict(_tar(path, start, wanted, allowance))
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    except MemoryError:
        raise
    except Exception as error:  # a broken archive can raise anything at all; an encrypted one says so
        if not path.exists():
            raise UserError(f"{path}: there is no such file or folder") from error
        kind = "folder" if path.is_dir() else f"tar or zip, or cut off ({path.stat().st_size:,} bytes)"
        raise UserError(f"{path}: not a readable {kind}: {brief(str(error))}") from error


def gunzip(name: str, content: bytes) -> bytes:
    """Return the content of a gz file."""
    allowance = Allowance(len(content), most=MEMBER)
    try:
        with gzip.open(io.BytesIO(content)) as file:
            unpacked = bytes(read_at_most(file, allowance.left + 1))
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{name}: not a gz file, or cut off ({len(content):,} bytes): {error}") from error
    try:
        allowance.take(len(unpacked))
    except UserError as error:
        raise UserError(f"{name}: {error}") from error
    return unpacked


class _Bounded(io.RawIOBase):
    """A stream that raises an error when it is longer than allowed."""

    def __init__(self, source: io.BufferedIOBase | io.RawIOBase, allowance: Allowance) -> None:
        self._source = source
        self._allowance = allowance

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        content = self._source.read(size)
        self._allowance.take(len(content))
        return content


def _folder(path: Path, wanted: MemberFilter) -> Iterator[tuple[str, bytes]]:
    allowance = Allowance(0, least=TOTAL)
    for file in sorted(path.rglob("*")):
        name = file.relative_to(path).as_posix()
        if wanted(name) and file.is_file():
            size = file.stat().st_size
            if size > MEMBER:
                raise UserError(f"refused, for '{name}' is larger than {MEMBER:,} bytes")
            allowance.take(size)
            yield name, file.read_bytes()


def _tar(path: Path, start: bytes, wanted: MemberFilter, allowance: Allowance) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a tar. All unpacked bytes count; sparse files, whose zeros would not, are refused."""
    opener = next((opener for magic, opener in COMPRESSED.items() if start.startswith(magic)), io.FileIO)
    with opener(path) as source, tarfile.open(fileobj=_Bounded(source, allowance), mode="r|") as archive:
        for count, member in enumerate(iter(archive.next, None)):
            archive.members.clear()  # type: ignore[attr-defined]  # tarfile would keep them all
            plain = (member.isreg() and not member.issparse()) or member.isdir()
            _check(member.name, member.size, count=count, plain=plain)
            if member.isreg() and wanted(_tidy(member.name)):
                file = archive.extractfile(member)
                content = bytes(read_at_most(file, member.size)) if file else b""
                if len(content) != member.size:
                    raise tarfile.ReadError(f"{member.name} is cut off")
                yield _tidy(member.name), content


def _zip(path: Path, wanted: MemberFilter, allowance: Allowance) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        for count, member in enumerate(archive.infolist()):
            mode = member.external_attr >> 16
            plain = not stat.S_IFMT(mode) or stat.S_ISREG(mode) or stat.S_ISDIR(mode)
            _check(member.filename, member.file_size, count=count, plain=plain)
            allowance.take(member.file_size)
        for member in archive.infolist():
            if not member.is_dir() and wanted(_tidy(member.filename)):
                with archive.open(member) as file:
                    yield _tidy(member.filename), bytes(read_at_most(file, member.file_size + 1))


def _tidy(name: str) -> str:
    return PurePosixPath(name).as_posix()


def _check(name: str, size: int, *, count: int, plain: bool) -> None:
    """Refuse what no data set's archive contains."""
    place = PureWindowsPath(name)  # knows both kinds of slashes, and drives
    if place.anchor or ".." in place.parts:
        raise UserError(f"refused, for '{brief(name)}' would lie outside the archive's own folder")
    if not plain:
        raise UserError(f"refused, for '{brief(name)}' is a sparse file, a link or a device")
    if size > MEMBER:
        raise UserError(f"refused, for '{brief(name)}' unpacks to more than {MEMBER:,} bytes")
    if count >= MEMBERS:
        raise UserError(f"refused, for it holds more than {MEMBERS:,} files")
