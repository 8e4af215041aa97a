"""The records, and tables of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def record(path: str) -> Any:
    """Return a record by its path from the root."""
    return json.loads((ROOT / path).read_text())


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = 1) -> str:
    """Return a table in Markdown, whose first columns are words and all others are numbers."""
    rules = ["---"] * words + ["---:"] * (len(head) - words)
    return "\n".join(f"| {' | '.join(row)} |".replace("|  |", "| |") for row in (head, rules, *rows))
