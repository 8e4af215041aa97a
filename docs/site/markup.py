"""Plain text, as docstrings and help texts are written, in the markup that Sphinx reads.

There, code stands in single backticks or after a colon and two spaces, blocks of code are indented, and nothing else
is markup: an asterisk is an asterisk, and x_i is no link.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby


def inline(text: str) -> str:
    """Return a line in which only code is marked up."""
    pieces = re.split(r"`([^`]+)`", re.sub(r":  (\S.*)$", r": `\1`", text))
    return "".join(f"``{piece}``" if place % 2 else _escape(piece) for place, piece in enumerate(pieces))


def _escape(text: str) -> str:
    return re.sub(r"([\\*|_])", r"\\\1", text)


def block(lines: Iterable[str]) -> list[str]:
    """Return paragraphs in which indented ones are code, and all else is text."""
    found: list[str] = []
    for blank, paragraph in groupby(lines, key=lambda line: not line.strip()):
        if blank:
            found.append("")
        else:
            found += _paragraph(list(paragraph))
    return found


def _paragraph(lines: Sequence[str]) -> list[str]:
    if lines[0].startswith("    "):
        return [".. code-block:: text", "", *lines]
    return [inline(line) for line in lines]


def heading(title: str, underline: str = "=") -> list[str]:
    """Return a heading."""
    return [title, underline * (len(title) + 2), ""]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table; cells hold markup."""
    found = [".. list-table::", "   :header-rows: 1", ""]
    for first, *others in (head, *rows):
        found += [f"   * - {first}", *(f"     - {cell}" for cell in others)]
    return [*found, ""]
