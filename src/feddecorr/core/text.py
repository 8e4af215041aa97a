"""Text of strangers, light to import: lists and JSON that are read, and names as they are shown."""

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


def is_text(word: str) -> bool:
    """Return whether UTF-8 can write it: in words of commands and names of files, other bytes come as half letters."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Controls of terminals (but tab and newline), of the direction of writing and of lines; halves of letters."""

_NUMBERS = re.compile(r"[-+\d .,±%\[\]]*(?: of \d+)?", re.ASCII)
_FORMULA = re.compile(r"(^|;)(?=\s*[=+\-@＝＋－＠])|^(?=[\t\r\n])")  # some spreadsheets separate cells by semicolons

_MARKDOWN = re.compile(r"[\\`*\[\]<|~$]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)|:(?=//)|(?<=www)\.", re.IGNORECASE)

_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {letter: f"\\{letter}" for letter in "&%$#_{}"}
_LATEX |= {"α": r"$\alpha$", "β": r"$\beta$", "ε": r"$\epsilon$", "μ": r"$\mu$", "ρ": r"$\rho$", "τ": r"$\tau$"}
_LATEX |= {"∞": r"$\infty$", "–": "--", "−": "$-$", "…": r"\dots{}"}
_LATEX |= {letter: f"{{{letter}}}" for letter in "[]*"}  # at the beginning of a row, they would belong to the last \\


def visible(text: str) -> str:
    r"""Return the text with invisible and control characters escaped.

    `\x1b` and `\u202e` are such; tabs and newlines stay.
    """
    return _UNSEEN.sub(_number, text)


def one_line(text: str) -> str:
    """Return it as it can be seen, tabs and newlines too: for a cell, a title, a legend."""
    return visible(text).replace("\t", "\\t").replace("\n", "\\n")


def _number(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def csv_cell(value: object) -> object:
    """Return a cell that no spreadsheet takes for a formula: text that begins like one, but is no number, is quoted."""
    if not isinstance(value, str):
        return value
    return one_line(value if _is_number(value) else _FORMULA.sub(r"\1'", value))


def _is_number(text: str) -> bool:
    """Return whether it is a number, or several with signs between them: a cell of ours, which computes nothing."""
    try:
        float(text)
    except ValueError:
        return _NUMBERS.fullmatch(text) is not None
    return True


def markdown(text: str) -> str:
    """Return Markdown that shows the text: no link, no code, no HTML, no further column."""
    return _MARKDOWN.sub(r"\\\g<0>", one_line(text))


def markdown_code(text: str) -> str:
    """Return the text as a code span, between more backticks than it has in a row."""
    text = one_line(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    room = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{room}{text}{room}{fence}"


def latex(text: str) -> str:
    """Return LaTeX that prints the text."""
    return "".join(_LATEX.get(letter, letter) for letter in one_line(text))


def plotly_text(text: str) -> str:
    """Return what plotly draws as the text: it takes `<a href=…>` and other tags for markup."""
    return one_line(text).replace("&", "&amp;").replace("<", "&lt;")


def matplotlib_text(text: str) -> str:
    """Return what matplotlib draws as the text: it takes what is between two dollars for a formula."""
    return one_line(text).replace("$", r"\$")
