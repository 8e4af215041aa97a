"""The table of recorded effective ranks that the diagnosis compares with, written into the package from the records.

python -m benchmarks.references
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from benchmarks.quotes.first_hour import RECORDS
from benchmarks.quotes.records import ROOT
from feddecorr.results.summary import Summary, read_summaries

FILE = ROOT / "src" / "feddecorr" / "collapse" / "recorded.json"
FEWEST = 5
"""Fewer runs than this are no comparison."""


def _last(run: Summary) -> dict[str, Any] | None:
    return next((line["model"] for line in reversed(run.rounds) if line["model"]), None)


def table() -> list[dict[str, Any]]:
    """Return the effective ranks after the last round of all recorded runs without regularizers."""
    found: dict[tuple[int, int], list[tuple[float, bool]]] = defaultdict(list)
    for run in read_summaries([*sorted((ROOT / "results").glob("*.jsonl")), RECORDS]):
        model = _last(run)
        if model is not None and not run.experiment["regularizers"]:
            homogeneous = str(run.experiment["partition"].get("alpha")) in ("inf", "Infinity")
            place = (model["dimensions"], model["classes"])
            found[place].append((round(model["effective_rank"], 1), homogeneous))
    return list(_rows(found))


def _rows(found: dict[tuple[int, int], list[tuple[float, bool]]]) -> Iterator[dict[str, Any]]:
    for (dimensions, classes), runs in sorted(found.items()):
        if len(runs) >= FEWEST:
            yield {
                "dimensions": dimensions,
                "classes": classes,
                "effective_ranks": sorted(rank for rank, _ in runs),
                "homogeneous": sorted(rank for rank, homogeneous in runs if homogeneous),
            }


def text() -> str:
    """Return the file's content, a row in a line."""
    return "[\n" + ",\n".join(map(json.dumps, table())) + "\n]\n"
