"""What may be taken of a file of unknown origin: the limits, and what measures first; light to import."""

from __future__ import annotations

import io
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from feddecorr.core.text import is_text
from feddecorr.errors import UserError

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    """Refuse more classes than a run allows."""
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
