"""What may be taken of a file of unknown origin: the limits, what measures first, and npz files read within them."""

from __future__ import annotations

import io
import math
import stat
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from feddecorr.core.text import is_text
from feddecorr.errors import UserError

PACKED = 100
"""How many times its own size a file may unpack to: images and features take 2 to 20 times, mere zeros 1000 times."""

ALWAYS = 64 << 20
"""Bytes that any file may unpack to, however small it is."""

TOTAL = 2 << 30
"""Bytes that an archive may unpack to, and that pictures may, however well they are packed.

The largest archive of the public data sets stays below a fourth of it.
"""

MEMBER = 256 << 20
"""Bytes that a file in an archive may have, and any that is read at once: a picture, settings, a split."""

MEMBERS = 400_000
"""Files that an archive may hold."""

COMMANDS = 1_000_000
"""Commands that a pickle may have: each makes up to a hundred bytes of one, and CIFAR needs 400 000."""

CLASSES = 4096
"""Classes that a data set may have: what is measured of them grows with their square."""

LONGEST_CLASS = 1000
"""Characters that the name of a class may have."""

WIDEST = 1 << 14
"""Features that a sample may have: their covariance takes `TOTAL` then."""

COLUMNS = 1 << 17
"""Columns that a table may have."""

LINE = 64 << 20
"""Characters that a line of a csv file may have: `COLUMNS` numbers in full take a twentieth."""

NPY_HEADER = 10_000
"""Bytes that the header of an npy file may have, as NumPy has it."""

LONGEST = 200
"""Letters of a stranger that a message repeats."""


def brief(value: object) -> str:
    """Return what a message says of a value that may be of any length."""
    if isinstance(value, int) and value.bit_length() > 64:
        return f"a whole number of {value.bit_length():,} bits"
    if not isinstance(value, str | int | float | None):
        return type(value).__name__
    said = " ".join(str(value).split())
    return said if len(said) <= LONGEST else f"{said[:LONGEST]}…"


class Allowance:
    """The bytes that may be taken for one file, by its length: readers ask for each piece before they take it."""

    def __init__(self, length: int, *, least: int = ALWAYS, most: int | None = None, hint: str = "") -> None:
        allowed = max(least, PACKED * length)
        self.whole = allowed if most is None else min(allowed, most)
        self.left = self.whole
        self._hint = hint

    def take(self, size: int) -> None:
        """Count these bytes as taken; refuse if they are more than is left."""
        if size > self.left:
            raise UserError(f"refused, for it unpacks to more than {self.whole:,} bytes{self._hint}")
        self.left -= size


def check_labels(labels: NDArray[Any], *, classes: int = CLASSES) -> None:
    """Refuse labels that are no numbers of classes, by their row."""
    wrong = (labels < 0) | (labels >= classes)
    if wrong.any():
        row = int(wrong.argmax())
        raise UserError(f"row {row + 1}: the label is {int(labels[row]):,}, expected 0 to {classes - 1:,}")


def check_classes(count: int) -> None:
    """Refuse more classes than can be told apart."""
    if count > CLASSES:
        raise UserError(f"{count:,} classes are too many: at most {CLASSES:,}")


def check_class_names(names: Iterable[str]) -> None:
    """Refuse names of classes that no record could hold."""
    for name in names:
        if len(name) > LONGEST_CLASS or not is_text(name):
            said = f"text in UTF-8 of at most {LONGEST_CLASS} characters"
            raise UserError(f"a class is called {brief(name)!a}: a class needs a name that is {said}")


def check_columns(count: int) -> None:
    """Refuse a table that is too wide."""
    if count > COLUMNS:
        raise UserError(f"{count:,} columns are too many: at most {COLUMNS:,}")


def check_width(count: int) -> None:
    """Refuse samples of too many features."""
    if count > WIDEST:
        raise UserError(f"{count:,} features are too many: at most {WIDEST:,}")


CHUNK = 1 << 20

AnyArray = NDArray[Any]


def read_npz(path: Path) -> dict[str, AnyArray]:
    """Return the arrays by name; nothing is unpickled, and sizes count that are read, not those that are claimed."""
    try:
        check_plain(path)
        return dict(_arrays(path))
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    except MemoryError:
        raise
    except Exception as error:  # a broken file can raise anything at all
        raise UserError(f"{path}: not an npz file of plain arrays: {error}") from error


def _arrays(path: Path) -> Iterator[tuple[str, AnyArray]]:
    allowance = Allowance(path.stat().st_size)
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as stream:
                yield name.removesuffix(".npy"), _array(stream, allowance)


def _array(stream: IO[bytes], allowance: Allowance) -> AnyArray:
    """Return the array of one member: what its header says has to follow, and no more than is allowed."""
    shape, columns_first, dtype = read_npy_header(stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    size = math.prod(shape) * dtype.itemsize
    allowance.take(size)
    content = read_at_most(stream, size + 1)
    if len(content) != size:
        raise ValueError(f"{len(content):,} bytes where the shape {shape} says {size:,}")
    return np.frombuffer(content, dtype).reshape(shape, order="F" if columns_first else "C")


def read_npy_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return the shape, whether columns come first, and the type; a header is short, whatever length it claims."""
    version = np.lib.format.read_magic(stream)
    length = stream.read(2 if version == (1, 0) else 4)
    if (size := int.from_bytes(length, "little")) > NPY_HEADER:
        raise ValueError(f"its header claims {size:,} bytes, more than {NPY_HEADER:,}")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        return read(io.BytesIO(length + stream.read(size)))
    except MemoryError as error:  # Python's parser
        raise ValueError("its header is nested too deeply") from error


def check_plain(path: Path, most: int | None = None) -> None:
    """Refuse what is no file, since it could be waited for or read without end, and a file of more bytes."""
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):
        raise UserError(f"{path} is not a file")
    if most is not None and about.st_size > most:
        raise UserError(f"{path}: refused, for it is larger than {most:,} bytes")


def read_plain(path: Path) -> bytes:
    """Return the content of a file, which is read at once and therefore bounded."""
    check_plain(path, MEMBER)
    return path.read_bytes()


def read_at_most(stream: IO[bytes] | io.BufferedIOBase, limit: int) -> bytearray:
    """Return what a stream holds, up to the limit; memory grows with what has come, not with what was announced."""
    content = bytearray()
    while len(content) < limit and (chunk := stream.read(min(CHUNK, limit - len(content)))):
        content += chunk
    return content
