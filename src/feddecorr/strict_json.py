"""JSON as the standard has it; light to import."""

from __future__ import annotations

import json
import re
from typing import Any

HALF = re.compile(rb"\\u[dD][89a-fA-F]")


def parse_json(content: bytes) -> Any:
    """Return what JSON says; what Python reads beyond the standard (NaN and infinity, half characters) is refused."""

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is no number")

    found = json.loads(content, parse_constant=refuse)
    if HALF.search(content):  # most are halves of a pair, which is one character
        json.dumps(found, ensure_ascii=False).encode()
    return found
