"""Text as values: lists of a command line, and JSON as the standard has it, in both directions; light to import."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any, NoReturn


def read_list(value: Any) -> list[Any]:
    """Return a list as one may write it: `a,b` for two, `none` or nothing for an empty one, a number for itself."""
    if isinstance(value, str):
        return [part for part in map(str.strip, value.split(",")) if part not in ("", "none")]
    return list(value) if isinstance(value, Iterable) else [value]


HALF = re.compile(rb"\\u[dD][89a-fA-F]")
LARGE = [
    re.compile(letter + rb"\+?0*[1-9]\d\d+(?=[\s,\]}]|$)") for letter in (b"e", b"E")
]  # as one, five times as slow
DIGITS = bytes.maketrans(b"123456789", b"000000000")
"""What finds the two ways to write a number larger than any float, which Python would read as infinity."""


def parse_json(content: bytes) -> Any:
    """Return what JSON says; what Python reads beyond the standard is refused.

    That is NaN and infinity, also where a number is larger than any float, and half characters.
    """
    large = any(form.search(content) for form in LARGE) or b"0" * 300 in content.translate(DIGITS)
    numbers: dict[str, Any] = {"parse_float": _finite, "parse_int": _whole} if large else {}
    found = json.loads(content, parse_constant=_refuse, **numbers)
    if HALF.search(content):  # most are halves of a pair, which is one character
        json.dumps(found, ensure_ascii=False).encode()
    return found


def to_json(content: Any, *, indent: int | None = None, separators: tuple[str, str] | None = None) -> bytes:
    """Return the content as JSON that ends its line; refuse what `parse_json` would not read again."""
    written = json.dumps(content, indent=indent, separators=separators, allow_nan=False).encode()
    if HALF.search(written):
        parse_json(written)
    return written + b"\n"


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word[:40]} is no number")


def _finite(word: str) -> float:
    number = float(word)
    return number if math.isfinite(number) else _refuse(word)


def _whole(word: str) -> int:
    _finite(word)
    return int(word)
