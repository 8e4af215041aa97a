"""Features and labels in CSV files: what could mean two things is refused, with the line and the column."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feddecorr.core.limits import brief, check_columns
from feddecorr.errors import UserError

LABELS = ("label", "labels", "class", "target", "y")
"""Headings of the column that holds the labels."""

INDEX = "write the file without an index (pandas: to_csv(…, index=False))"
INDEXES = ("id", "idx", "index", "row")
"""Headings of what numbers the rows, also where numbers are left out."""

Array = NDArray[Any]


def read_csv(path: Path) -> dict[str, Array]:
    """Return `features`, from a column `label` also `labels`; a file of one column of names is `labels` alone.

    The first line may name the columns.
    """
    first, second = _first_two(path)
    try:
        check_columns(len(first))
    except UserError as error:
        raise UserError(f"{path}, line 1: {error}") from error
    if len(first) == 1:
        for separator, name in {";": "a semicolon", "\t": "a tab"}.items():
            if separator in first[0]:
                raise UserError(f"{path}, line 1: cells are separated by commas, not by {name}")
    headed = _is_heading(path, first, second)
    names = [cell.strip().removeprefix("#").strip() for cell in first] if headed else []  # NumPy writes a #
    if headed and not second:
        raise UserError(f"{path}: there is nothing below the heading")
    if not headed and len(first) > 1 and list(map(float, first)) == list(range(len(first))):
        raise UserError(f"{path}, line 1: it counts the columns: give them names, or leave the line out")
    marked = _marked(path, names)
    if len(first) == 1 and not _is_number((second if headed else first)[0]):
        marked = [0]
    table = _table(path, names, width=len(first), marked=marked)
    features = table.get("features")
    if features is not None and features.shape[1] > 1 and 0 not in marked and counts_rows(features[:, 0]):
        raise UserError(f"{path}: column 1 counts the rows: {INDEX}; a feature that does so must not come first")
    return table


def columns_of(path: Path) -> int:
    """Return how many cells the first line has."""
    return len(next(_rows(path), (0, []))[1])


def counts_rows(column: Array) -> bool:
    """Tell whether a column has all numbers from some on, each once and in any order, as an index has."""
    if len(column) < 3 or not np.isfinite(column).all():
        return False
    return bool((np.sort(column) == column.min() + np.arange(len(column))).all())


def _first_two(path: Path) -> tuple[list[str], list[str]]:
    rows = _rows(path)
    first, second = next(rows, (0, []))[1], next(rows, (0, []))[1]
    if not first:
        raise UserError(f"{path} is empty")
    return first, second


def _is_heading(path: Path, first: Sequence[str], second: Sequence[str]) -> bool:
    """Tell whether the first line names the columns; a single column of words could do without."""
    if all(map(_is_number, first)):
        return False
    if len(first) > 1 or first[0].strip().lower() in LABELS or (second and _is_number(second[0])):
        return True
    if all(cells != first for _, cells in _rows(path, skip=True)):
        raise UserError(
            f"{path}, line 1: '{brief(first[0])}' could be a heading or a class with one sample: "
            "let the heading be 'label'"
        )
    return False


def _marked(path: Path, names: Sequence[str]) -> list[int]:
    """Return which columns hold labels, one or none; refuse headings that leave it open what is a feature."""
    small = [name.lower() for name in names]
    if "" in small:
        raise UserError(f"{path}, line 1: column {small.index('') + 1} has no name: {INDEX}")
    for place, name in enumerate(small):
        if len(small) > 1 and name in INDEXES:
            raise UserError(f"{path}, line 1: column {place + 1} ('{brief(names[place])}') numbers the rows: {INDEX}")
    marked = [place for place, name in enumerate(small) if name in LABELS]
    if len(marked) > 1:
        raise UserError(f"{path}, line 1: several columns could be the labels: {', '.join(names[k] for k in marked)}")
    if {"x", "y"} <= set(small):
        raise UserError(f"{path}, line 1: the column 'y' could be the labels or belong to 'x': give it another name")
    return marked


def _table(path: Path, names: Sequence[str], *, width: int, marked: Sequence[int]) -> dict[str, Array]:
    """Read the numbers; where that fails, find the cell."""
    options: dict[str, Any] = {"delimiter": ",", "skiprows": int(bool(names)), "quotechar": '"', "comments": None}
    options["encoding"] = "utf-8-sig"
    rest = [place for place in range(width) if place not in marked]
    _check_widths(path, names, width)
    found: dict[str, Array] = {}
    if rest:
        try:
            found["features"] = np.loadtxt(path, usecols=rest, ndmin=2, **options)
        except ValueError as error:
            raise UserError(_wrong_cell(path, names, rest) or f"{path} cannot be read: {error}") from error
        if not np.isfinite(found["features"]).all():
            raise UserError(_wrong_cell(path, names, rest) or f"{path} holds NaN or infinity")
    for place in marked:
        words = np.array([cells[place].strip() for _, cells in _rows(path, skip=bool(names))])
        if not words.astype(bool).all():
            raise UserError(_wrong_cell(path, names, marked, words=True) or f"{path}: a label is empty")
        found["labels"] = words.astype(float) if all(map(_is_number, words)) else words
    return found


def _check_widths(path: Path, names: Sequence[str], width: int) -> None:
    for line, cells in _rows(path, skip=bool(names)):
        if len(cells) != width:
            raise UserError(f"{path}, line {line}: {len(cells)} cells, where the first line has {width}")


def _wrong_cell(path: Path, names: Sequence[str], places: Sequence[int], *, words: bool = False) -> str | None:
    for line, cells in _rows(path, skip=bool(names)):
        for place in places:
            column = f"{path}, line {line}: column {place + 1}" + (f" ('{brief(names[place])}')" if names else "")
            if not cells[place].strip():
                return f"{column} is empty"
            if not words and not _is_number(cells[place], finite=True):
                return f"{column} holds '{brief(cells[place])}', which is no number"
    return None


def _rows(path: Path, *, skip: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells of each line that is not blank, with or without the first."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        rows = ((reader.line_num, cells) for cells in reader if cells)
        if skip:
            next(rows, None)
        yield from rows


def _is_number(cell: str, *, finite: bool = False) -> bool:
    try:
        return math.isfinite(float(cell)) or not finite
    except ValueError:
        return False
