"""Tables in csv and parquet files: anything ambiguous is refused, with its place. Only this file loads pandas."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from feddecorr.core.files import reading
from feddecorr.core.limits import LINE, TOTAL, brief, check_columns
from feddecorr.data.arrow import ArrowReader
from feddecorr.errors import RunError, UserError

if TYPE_CHECKING:
    import pandas as pd

LABELS = ("label", "labels", "class", "target", "y")
"""Headings of the column of labels."""

INDEXES = ("id", "idx", "index", "row")
"""Headings of a column that numbers the rows, even with gaps."""

PARQUET_INDEX = "__index_level_"
"""What pandas calls an index that it writes into a parquet file, and this number of it."""

NO_INDEX = "write the file without an index (pandas: to_csv(…, index=False))"

AnyArray = NDArray[Any]


def pandas_library() -> Any:
    """Return pandas, or say how to get it."""
    try:
        import pandas as pd  # noqa: PLC0415 - optional
    except ImportError as error:
        raise UserError("tables are read and made by pandas: pip install 'feddecorr[tables]'") from error
    return pd


def read_table(path: Path) -> pd.DataFrame:
    """Return the table of a csv or parquet file; its columns have names, and none numbers the rows."""
    library = pandas_library()
    readers: dict[str, Callable[[Path, Any], pd.DataFrame]] = {".csv": _pandas_csv, ".parquet": _pandas_parquet}
    read = readers.get(path.suffix.lower())
    if read is None:
        raise UserError(f"{path}: a table is a .csv or .parquet file")
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    try:
        table: pd.DataFrame = read(path, library)
        table.select_dtypes(exclude="number").to_numpy(dtype=object)  # pandas decodes text on access
    except (UserError, RunError, MemoryError):
        raise
    except Exception as error:  # whatever the readers raise on a damaged file
        raise UserError(f"{path} is not a readable table: {brief(str(error))}") from error
    if "" in (names := list(map(str, table.columns))):
        raise UserError(
            f"{path}: a column has no heading (the {names.index('') + 1}. one); if it is an index, write the table "
            "without it (to_csv(…, index=False)), else give it a name"
        )
    for place, name in enumerate(map(str, table.columns)):
        column = table.iloc[:, place]
        numbered = name.lower() in INDEXES or name.startswith(PARQUET_INDEX)
        if numbered or (place == 0 and column.dtype.kind in "iuf" and _counts_rows(column.to_numpy())):
            raise UserError(
                f"{path}: the column '{name}' numbers the rows; if it is an index, write the table without it "
                "(to_csv(…, index=False)), else give it another name, and do not put it first"
            )
    return table


def _pandas_csv(path: Path, library: Any) -> Any:
    with reading(path):
        heading = next(_rows(path), (0, []))[1]
        check_columns(len(heading))
        if (size := path.stat().st_size) > TOTAL:
            raise UserError(f"a csv file of {size:,} bytes, more than {TOTAL:,}: parquet is smaller")
    table = library.read_csv(path, low_memory=False)  # else each part of a column may get a type of its own
    width = table.shape[1] + (0 if isinstance(table.index, library.RangeIndex) else table.index.nlevels)
    if width != len(heading):  # pandas takes what stands before the columns for an index
        raise UserError(f"{path}: the rows have {width} cells, but the heading has {len(heading)}")
    return table.set_axis([name.strip() for name in heading], axis="columns")  # pandas renames those that repeat


def labels_of(path: Path, column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column of labels, text without the spaces around it; a missing one is refused, with its row."""
    if column.dtype.kind not in "biuf":
        column = column.map(lambda value: value.strip() if isinstance(value, str) else value)
    missing = column.isna() | column.isin(["", np.inf, -np.inf])
    if missing.any():
        raise UserError(
            f"{path}: the label of row {int(missing.to_numpy().argmax()) + 1} is missing or infinite: no cell may "
            "be empty, nor hold what stands for that (NA, null, None and the like)"
        )
    return column


def _pandas_parquet(path: Path, library: Any) -> Any:
    with ArrowReader() as reader:
        columns = reader.table(path)
    table = library.DataFrame({place: values for place, (_, values) in enumerate(columns)})
    return table.set_axis([name for name, _ in columns], axis="columns")  # names may repeat


def read_csv(path: Path) -> dict[str, AnyArray]:
    """Return `features` and, from a column `label`, also `labels`; a single column of names is `labels` alone.

    Needs no pandas. The first line may be a heading.
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
    label = _label_column(path, names)
    if len(first) == 1 and not _is_number((second if headed else first)[0]):
        label = 0
    table = _parse(path, names, width=len(first), label=label)
    features = table.get("features")
    if features is not None and features.shape[1] > 1 and label != 0 and _counts_rows(features[:, 0]):
        raise UserError(f"{path}: column 1 counts the rows: {NO_INDEX}; a feature that does so must not come first")
    return table


def _counts_rows(column: AnyArray) -> bool:
    """Tell whether a column holds consecutive numbers, each once and in any order, like an index."""
    if len(column) < 3 or not np.isfinite(column).all():
        return False
    return bool((np.diff(np.sort(column)) == 1).all())


def _first_two(path: Path) -> tuple[list[str], list[str]]:
    rows = _rows(path)
    first, second = next(rows, (0, []))[1], next(rows, (0, []))[1]
    if not first:
        raise UserError(f"{path} is empty")
    return first, second


def _is_heading(path: Path, first: Sequence[str], second: Sequence[str]) -> bool:
    """Tell whether the first line names the columns; in a single column of words, that may be unclear."""
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


def _label_column(path: Path, names: Sequence[str]) -> int | None:
    """Return which column holds the labels, if any; refuse headings that could mean two things."""
    small = [name.lower() for name in names]
    if "" in small:
        raise UserError(f"{path}, line 1: column {small.index('') + 1} has no name: {NO_INDEX}")
    for place, name in enumerate(small):
        if len(small) > 1 and name in INDEXES:
            raise UserError(
                f"{path}, line 1: column {place + 1} ('{brief(names[place])}') numbers the rows: {NO_INDEX}"
            )
    found = [place for place, name in enumerate(small) if name in LABELS]
    if len(found) > 1:
        raise UserError(f"{path}, line 1: several columns could be the labels: {', '.join(names[k] for k in found)}")
    if {"x", "y"} <= set(small):
        raise UserError(f"{path}, line 1: the column 'y' could be the labels or belong to 'x': give it another name")
    return found[0] if found else None


def _parse(path: Path, names: Sequence[str], *, width: int, label: int | None) -> dict[str, AnyArray]:
    """Convert all cells below the heading, and check the number of cells in each line."""
    rest = [place for place in range(width) if place != label]
    numbers, words = array("d"), []
    for line, cells in _rows(path, skip=bool(names)):
        if len(cells) != width:
            raise UserError(f"{path}, line {line}: {len(cells)} cells, where the first line has {width}")
        if label is not None:
            words.append(cells[label].strip())
            if not words[-1]:
                raise UserError(f"{_cell(path, line, label, names)} is empty")
        values = [cells[place] for place in rest]
        try:
            if "_" in "".join(values):
                raise ValueError  # Python would read 1_000 as a number, unlike other programs
            numbers.extend(map(float, values))
        except ValueError as error:
            wrong = next(place for place in rest if "_" in cells[place] or not _is_number(cells[place]))
            said = f"holds '{brief(cells[wrong])}', which is not a number" if cells[wrong].strip() else "is empty"
            raise UserError(f"{_cell(path, line, wrong, names)} {said}") from error
    found: dict[str, AnyArray] = {}
    if rest:
        found["features"] = features = np.frombuffer(numbers).reshape(-1, len(rest))
        if not np.isfinite(features).all():
            row, column = np.argwhere(~np.isfinite(features))[0]
            line, cells = next(islice(_rows(path, skip=bool(names)), int(row), None))
            wrong = rest[column]
            raise UserError(
                f"{_cell(path, line, wrong, names)} holds '{brief(cells[wrong])}', which is not a finite number"
            )
    if label is not None:
        found["labels"] = np.array(words, float if all(map(_is_number, words)) else str)
    return found


def _cell(path: Path, line: int, place: int, names: Sequence[str]) -> str:
    return f"{path}, line {line}: column {place + 1}" + (f" ('{brief(names[place])}')" if names else "")


def _rows(path: Path, *, skip: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells of each line that is not blank, with or without the first."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(_lines(file))
        rows = ((reader.line_num, cells) for cells in reader if cells)
        if skip:
            next(rows, None)
        yield from rows


def _lines(file: IO[str]) -> Iterator[str]:
    while line := file.readline(LINE):
        if len(line) == LINE:
            raise ValueError(f"a line has more than {LINE:,} characters")
        yield line


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
