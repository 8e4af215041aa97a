"""Lists as one writes them on a command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def read_list(value: Any) -> list[Any]:
    """Return a list as one may write it: `a,b` for two, `none` or nothing for an empty one, a number for itself."""
    if isinstance(value, str):
        return [part for part in map(str.strip, value.split(",")) if part not in ("", "none")]
    return list(value) if isinstance(value, Iterable) else [value]
