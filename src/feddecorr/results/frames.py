"""Records of runs as one table of pandas, a row for each round."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feddecorr.config.overrides import flatten
from feddecorr.core.files import write_bytes
from feddecorr.core.text import csv_cell
from feddecorr.data.tables import pandas_library
from feddecorr.errors import UserError
from feddecorr.results.summary import Summary, read_summaries

if TYPE_CHECKING:
    import pandas as pd

ENDINGS = (".parquet", ".csv")


def load_runs(*sources: str | Path) -> pd.DataFrame:
    """Return the finished rounds of runs, folders of runs and records (.jsonl) as a table, one row a round.

    `run` is the run's digest; `setting.NAME` are its settings by their dotted names, the same in each of its rows;
    `term.NAME` are the terms of the local objective; all other columns are measures of the global model by their
    names, empty where it was not evaluated.
    """
    library = pandas_library()
    summaries = read_summaries([Path(source) for source in sources])
    table: pd.DataFrame = library.DataFrame([row for summary in summaries for row in _rows(summary)])
    for name in table.columns:
        known = table[name].dropna()
        if known.map(lambda value: isinstance(value, str)).nunique() > 1:  # a column of a file has one type
            table[name] = known.map(str)
    return table


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write the table in the format of the file's ending, in one step."""
    refuse_ending(path)
    content = _to_csv(table) if path.suffix == ".csv" else table.to_parquet(None, index=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, content)


def _to_csv(table: pd.DataFrame) -> bytes:
    return bytes(table.map(csv_cell).rename(columns=csv_cell).to_csv(index=False).encode())


def refuse_ending(path: Path) -> None:
    """Refuse, before any work, a file that cannot be written."""
    if path.suffix not in ENDINGS:
        raise UserError(f"{path}: a table ends in {' or '.join(ENDINGS)}, not in '{path.suffix}'")


def _rows(summary: Summary) -> list[dict[str, Any]]:
    settings = {f"setting.{key}": _cell(value) for key, value in flatten(summary.settings).items()}
    return [
        {
            "run": summary.digest,
            "round": line["round"],
            "seconds": line["seconds"],
            "missing": len(line["missing"]),
            **(line["model"] or {}),
            **{f"term.{name}": value for name, value in line["terms"].items()},
            **settings,
        }
        for line in summary.rounds
    ]


def _cell(value: Any) -> Any:
    """Return a value that a column can hold: lists and empty tables become words."""
    if value == "Infinity":  # as settings are written
        return math.inf
    return value if isinstance(value, str | int | float | None) else str(value)
