"""Validation of values that others sent: type, size and range, and a sentence for anything else."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard

import torch
from torch import Tensor

from feddecorr.errors import UserError

LARGEST = 1e12
"""The largest number that is taken: squares of such, summed over a network, are finite in float32."""

MOST_EXAMPLES = 2**31 - 1
"""The most examples that a client may claim; also the largest number of a client and of a round."""

MOST_CLASSES = 1 << 15
"""The most classes of a federation."""

LONGEST_TEXT = 500
"""Characters of what a client says of itself and of a reason, in records and logs."""

LONGEST_NAME = 100
"""Characters of a name: of a term, a class or a tensor."""

SHOWN = 60
"""Characters of a wrong value in a sentence."""


class Check(Protocol):
    """Refuses a value that is not what it should be."""

    def __call__(self, value: Any, name: str) -> None:
        """Raise a `UserError` with the name, the value and what would be right."""


@dataclass(frozen=True)
class Whole:
    """A whole number within bounds; true and false are none."""

    low: int
    high: int

    def __call__(self, value: Any, name: str) -> None:
        """Refuse all else."""
        if type(value) is not int or not self.low <= value <= self.high:
            raise refusal(name, value, f"a whole number from {self.low} to {self.high}")


@dataclass(frozen=True)
class Real:
    """A number within bounds, and so a finite one."""

    low: float = -LARGEST
    high: float = LARGEST

    def __call__(self, value: Any, name: str) -> None:
        """Refuse all else."""
        if isinstance(value, bool) or not isinstance(value, float | int) or not self.low <= value <= self.high:
            raise refusal(name, value, f"a number from {self.low:g} to {self.high:g}")


@dataclass(frozen=True)
class Text:
    """Characters that can be shown and written, in one line."""

    longest: int = LONGEST_TEXT
    shortest: int = 0

    def __call__(self, value: Any, name: str) -> None:
        """Refuse all else."""
        if not isinstance(value, str) or not self.shortest <= len(value) <= self.longest or not value.isprintable():
            raise refusal(name, value, f"a line of {self.shortest} to {self.longest} printable characters")


@dataclass(frozen=True)
class AnyText:
    """Text of any kind, which is made `printable` where it is used."""

    def __call__(self, value: Any, name: str) -> None:
        """Refuse what is not text."""
        if not isinstance(value, str):
            raise refusal(name, value, "text")


NAME = Text(LONGEST_NAME, 1)


@dataclass(frozen=True)
class OneOf:
    """One of a few names."""

    names: Collection[str]

    def __call__(self, value: Any, name: str) -> None:
        """Refuse all else."""
        if not isinstance(value, str) or value not in self.names:
            raise refusal(name, value, f"one of {', '.join(sorted(self.names)) or 'none'}")


@dataclass(frozen=True)
class ListOf:
    """A sequence of values of one kind, with bounds on its length."""

    each: Check
    most: int
    least: int = 0

    def __call__(self, value: Any, name: str) -> None:
        """Refuse all else, and name the place of what is wrong."""
        if not isinstance(value, list | tuple) or not self.least <= len(value) <= self.most:
            raise refusal(name, value, f"a list of {self.least} to {self.most}")
        for place, each in enumerate(value):
            self.each(each, f"{name}.{place}")


@dataclass(frozen=True)
class MappingOf:
    """Values of one kind by name, with a bound on their number."""

    names: Check
    values: Check
    most: int

    def __call__(self, value: Any, name: str) -> None:
        """Refuse all else, and name the key of what is wrong."""
        if not isinstance(value, dict) or len(value) > self.most:
            raise refusal(name, value, f"a table of at most {self.most}")
        for key, each in value.items():
            self.names(key, f"{name}: the name")
            self.values(each, f"{name}.{key}")


def check_fields(message: object, fields: Mapping[str, Check]) -> None:
    """Refuse a message with a field that is not what the table says."""
    for name, check in fields.items():
        check(getattr(message, name), name)


def is_plain(tensor: object) -> TypeGuard[Tensor]:
    """Return whether it is a tensor of numbers in the memory of this process: not sparse, nested or quantized."""
    return (
        isinstance(tensor, Tensor)
        and tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and not (tensor.is_nested or tensor.is_quantized)
    )


def refusal(name: str, value: object, right: str) -> UserError:
    """Return the error that names what is wrong, and what would be right."""
    return UserError(printable(f"{name}={shown(value)}, not {right}"))


def shown(value: object) -> str:
    """Return a short text for any value; of values of unknown types, nothing is called."""
    if isinstance(value, str):
        return repr(value) if len(value) <= SHOWN else f"{value[:SHOWN]!r}… of {len(value)} characters"
    if isinstance(value, int):
        return str(value) if value.bit_length() <= 128 else f"a number of {value.bit_length()} bits"
    if isinstance(value, float) or value is None:
        return str(value)
    if isinstance(value, list | tuple | dict):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"


def printable(text: str, longest: int = LONGEST_TEXT) -> str:
    """Return the text as one line of characters that can be shown and written, with … where it was cut."""
    line = " ".join(text[: 4 * longest].split())  # whatever is behind that would be cut
    safe = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in line[: longest + 1])
    return safe if len(safe) <= longest and len(text) <= 4 * longest else f"{safe[: longest - 1]}…"
