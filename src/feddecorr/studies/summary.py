"""One run as a compact record: all that tables, figures and claims need, small enough for git."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

_REDUCE: dict[str, tuple[int, Callable[[Sequence[float]], float]]] = {
    "last": (1, lambda values: values[-1]),
    "last_ten": (10, lambda values: fmean(values[-10:])),
    "best": (1, max),
}
STATISTICS = tuple(_REDUCE)


@dataclass(frozen=True)
class Summary:
    """One run."""

    digest: str
    experiment: dict[str, Any]
    command: str
    environment: dict[str, Any]
    rounds: list[dict[str, Any]]
    spectrum: list[float] | None
    local_models: dict[str, dict[str, Any]]
    local_terms: dict[str, dict[str, list[float]]]

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Summary:
        """Take what `to_dict` gave."""
        return cls(**{name: stored[name] for name in cls.__dataclass_fields__})

    def statistic(self, name: str, measure: str = "accuracy", rounds: int | None = None) -> float | None:
        """Return the last value of a measure, the mean of the last ten, or the best; None if they are too few."""
        values = [
            line["model"][measure]
            for line in self.rounds
            if line["model"] and line["model"].get(measure) is not None and (rounds is None or line["round"] <= rounds)
        ]
        fewest, reduce = _REDUCE[name]
        return float(reduce(values)) if len(values) >= fewest else None


def read_summaries(paths: Sequence[Path]) -> list[Summary]:
    """Return the runs of these files of records."""
    lines = [line for path in paths if path.is_file() for line in path.read_text().splitlines()]
    found = [Summary.from_dict(json.loads(line)) for line in lines]
    return list({summary.digest: summary for summary in found}.values())


def write_summaries(path: Path, summaries: Sequence[Summary]) -> None:
    """Write one line of JSON for each run."""
    path.write_text("".join(json.dumps(summary.to_dict()) + "\n" for summary in summaries))
