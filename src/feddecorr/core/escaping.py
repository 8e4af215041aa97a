"""Text of strangers in what we write: a name is shown as the letters that it has, and never acts on its reader.

Run names, notes, class names, columns, paths: each kind of output has one function here, which its writer calls.
"""

from __future__ import annotations

import re

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Controls of terminals (but tab and newline), of the direction of writing and of lines; halves of letters."""

_NUMBERS = re.compile(r"[-+\d .,±%\[\]]*(?: of \d+)?", re.ASCII)
_FORMULA = re.compile(r"[=+\-@\t\r\n＝＋－＠]")

_MARKDOWN = re.compile(r"[\\`*\[\]<|~$]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)|:(?=//)|(?<=www)\.", re.IGNORECASE)

_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {letter: f"\\{letter}" for letter in "&%$#_{}"}
_LATEX |= {letter: f"{{{letter}}}" for letter in "[]*"}  # at the beginning of a row, they would belong to the last \\


def visible(text: str) -> str:
    r"""Return it with a number in place of each letter that acts on a terminal or a reader instead of being seen.

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
    text = one_line(value)
    return f"'{text}" if _FORMULA.match(value) and not _is_number(value) else text


def _is_number(text: str) -> bool:
    """Tell whether it is a number, or several with signs between them: a cell of ours, which computes nothing."""
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
