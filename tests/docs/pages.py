"""What the documentation's pages hold: code, commands, links and headings.

Sybil does this for many projects, but not for this one. It makes a test of every block, and the workers of
pytest-xdist take single tests: blocks that build on each other would be dealt out to several processes. Nor does it
see indented blocks, fences without a language, or commands within sentences.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
PROGRAMS = ("feddecorr ", "python -m ", "make ")
"""What a command begins with, where nothing else tells it from other text."""

SHELL_SYNTAX = set("|&;<>()$*`")
PLACEHOLDER = re.compile(r"\b[A-Z][A-Z_]*\b|…")


class PageError(AssertionError):
    """Something in a page is not as the page says."""


@dataclass(frozen=True)
class Command:
    """A command line of a page."""

    line: int
    words: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(self.words)


@dataclass(frozen=True)
class Block:
    """A block of code; `file` is the name under which the page asks to save it."""

    line: int
    language: str
    text: str
    file: str | None = None

    def commands(self) -> Iterator[Command]:
        """Yield the command lines, with continued lines put together and without comments."""
        lines = iter(enumerate(self.text.splitlines(), self.line))
        for number, line in lines:
            whole = line
            while whole.endswith("\\"):
                whole = whole[:-1] + next(lines)[1]
            if words := _split(whole):
                yield Command(number, words)


@dataclass(frozen=True)
class Span:
    """Code within a sentence."""

    line: int
    text: str

    @property
    def is_command(self) -> bool:
        """Whether it begins as a command does."""
        return self.text.startswith(PROGRAMS)

    @property
    def is_template(self) -> bool:
        """Whether the reader has to fill something in."""
        return PLACEHOLDER.search(self.text) is not None

    def command(self) -> Command:
        """Return it as a command line."""
        return Command(self.line, _split(self.text))


@dataclass(frozen=True)
class Page:
    """A page of Markdown by its path from the root."""

    path: str
    text: str

    @classmethod
    def read(cls, file: Path) -> Page:
        """Read a page of the project."""
        return cls(file.relative_to(ROOT).as_posix(), file.read_text())

    @cached_property
    def pieces(self) -> tuple[Block | Span, ...]:
        """All code, in the order of reading."""
        return tuple(self._pieces())

    @property
    def blocks(self) -> Iterator[Block]:
        """The blocks of code."""
        return (piece for piece in self.pieces if isinstance(piece, Block))

    @property
    def spans(self) -> Iterator[Span]:
        """The code within sentences."""
        return (piece for piece in self.pieces if isinstance(piece, Span))

    @property
    def commands(self) -> Iterator[Command]:
        """All commands, those to be filled in included."""
        for piece in self.pieces:
            if isinstance(piece, Block) and piece.language == "sh":
                yield from piece.commands()
            elif isinstance(piece, Span) and piece.is_command:
                yield piece.command()

    @property
    def links(self) -> Iterator[str]:
        """Where links lead to and pictures come from."""
        for token in self._tokens:
            for part in token.children or ():
                if target := part.attrGet("href") or part.attrGet("src"):
                    yield str(target)

    @property
    def anchors(self) -> set[str]:
        """What links can name of this page: its headings as GitHub writes them."""
        titles = [after.content for token, after in pairwise(self._tokens) if token.type == "heading_open"]
        return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}

    @cached_property
    def _tokens(self) -> list[Token]:
        return MarkdownIt("commonmark").enable("table").parse(self.text)

    def _pieces(self) -> Iterator[Block | Span]:
        sentence = ""
        for token in self._tokens:
            line = token.map[0] + 1 if token.map else 0
            if token.type == "inline":
                sentence = token.content
                yield from (Span(line, part.content) for part in token.children or () if part.type == "code_inline")
            elif token.type == "fence":
                text = token.content
                yield Block(line + 1, token.info or _guess(text), text, _file(sentence, text))
                sentence = ""
            elif token.type == "code_block":
                yield Block(line, _guess(token.content), token.content)


def all_pages() -> list[Page]:
    """Return all pages of the documentation."""
    return [Page.read(file) for file in (*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md")))]


def _split(line: str) -> tuple[str, ...]:
    """Return the words of a plain command line; quoted words may hold anything."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="".join(SHELL_SYNTAX))
    lexer.whitespace_split = True
    words = tuple(lexer)
    if any(set(word) <= SHELL_SYNTAX for word in words):
        raise PageError(f"more than a plain command: {line}")
    return words


def has_commands(text: str) -> bool:
    """Return whether a line of the text begins as a command does, perhaps after a prompt."""
    return any(line.lstrip("$ ").startswith(PROGRAMS) for line in text.splitlines())


def _guess(text: str) -> str:
    """Return the language of a block that names none: commands, or just text."""
    return "sh" if has_commands(text) else "text"


def _file(sentence: str, text: str) -> str | None:
    """Return the file's name where a block's first line is a comment with just that, or the sentence before says so."""
    found = re.match(r"# ([\w-]+\.\w+)\n", text) or re.search(r"\bas `([\w-]+\.\w+)`:$", sentence)
    return found and found[1]
