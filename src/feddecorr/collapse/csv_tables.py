"""Features and labels in CSV files: what could mean two things is refused, with the line and the column."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feddecorr.errors import UserError

LABELS = ("label", "labels", "class", "target")
"""Headings of the column that holds the labels."""

INDEX = "write the file without an index (pandas: to_csv(…, index=False))"

Array = NDArray[Any]


def read_csv(path: Path) -> dict[str, Array]:
    """Return `features`, from a column `label` also `labels`; a file of one column of names is `labels` alone.

    The first line may name the columns.
    """
    rows = _rows(path)
    first = next(rows, (0, []))[1]
    if not first:
        raise UserError(f"{path} is empty")
    headed = not all(map(_is_number, first)) and not (len(first) == 1 and first[0].lower() not in LABELS)
    names = [cell.strip() for cell in first] if headed else []
    if len(first) == 1 and not _is_number(first[0] if not headed else next(rows, (0, ["0"]))[1][0]):
        return {"labels": np.array([cells[0] for _, cells in _rows(path, skip=headed)])}
    marked = [place for place, name in enumerate(names) if name.lower() in LABELS]
    if len(marked) > 1:
        raise UserError(f"{path}, line 1: several columns could be the labels: {', '.join(names[k] for k in marked)}")
    if "" in names:
        raise UserError(f"{path}, line 1: column {names.index('') + 1} has no name: {INDEX}")
    if not headed and len(first) > 1 and list(map(float, first)) == list(range(len(first))):
        raise UserError(f"{path}, line 1: it counts the columns: give them names, or leave the line out")
    table = _table(path, names, width=len(first), marked=marked)
    if not headed and _counts(table.get("features")):
        raise UserError(f"{path}: column 1 counts the rows: {INDEX}")
    return table


def _table(path: Path, names: Sequence[str], *, width: int, marked: Sequence[int]) -> dict[str, Array]:
    """Read the numbers; where that fails, find the cell."""
    options: dict[str, Any] = {"delimiter": ",", "skiprows": int(bool(names)), "quotechar": '"', "comments": None}
    rest = [place for place in range(width) if place not in marked]
    _check_widths(path, names, width)
    found: dict[str, Array] = {}
    if rest:
        try:
            found["features"] = np.loadtxt(path, usecols=rest, ndmin=2, encoding="utf-8", **options)
        except ValueError as error:
            raise UserError(_wrong_cell(path, names, rest) or f"{path} cannot be read: {error}") from error
    for place in marked:
        words = np.loadtxt(path, usecols=place, ndmin=1, dtype=str, encoding="utf-8", **options)
        found["labels"] = words.astype(float) if all(map(_is_number, words)) else words
    return found


def _check_widths(path: Path, names: Sequence[str], width: int) -> None:
    for line, cells in _rows(path, skip=bool(names)):
        if len(cells) != width:
            raise UserError(f"{path}, line {line}: {len(cells)} cells, where the first line has {width}")


def _wrong_cell(path: Path, names: Sequence[str], places: Sequence[int]) -> str | None:
    for line, cells in _rows(path, skip=bool(names)):
        for place in places:
            if not _is_number(cells[place]):
                column = f"column {place + 1}" + (f" ('{names[place]}')" if names else "")
                what = f"holds '{cells[place]}', which is no number" if cells[place].strip() else "is empty"
                return f"{path}, line {line}: {column} {what}"
    return None


def _rows(path: Path, *, skip: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells of each line that is not blank, with or without the first."""
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        rows = ((reader.line_num, cells) for cells in reader if cells)
        if skip:
            next(rows, None)
        yield from rows


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _counts(features: Array | None) -> bool:
    """Tell whether the first of several columns is 0, 1, 2, … or 1, 2, 3, …, as an index is."""
    if features is None or features.shape[1] < 2 or len(features) < 3:
        return False
    column = features[:, 0]
    return bool((column - column[0] == np.arange(len(column))).all()) and column[0] in (0, 1)
