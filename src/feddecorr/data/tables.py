"""Tables in csv and parquet files, where anything ambiguous is refused with its place; and your own as a data set."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, field_validator

from feddecorr.core.files import reading
from feddecorr.core.limits import LINE, brief, check_classes, check_columns
from feddecorr.data.arrow import ArrowReader
from feddecorr.data.dataset import Augmentation, Dataset, Images, UserData, split_off_test
from feddecorr.errors import RunError, UserError, nearest

LABELS = ("label", "class", "target", "y", "labels")
"""Headings of the column of labels."""

INDEXES = ("id", "idx", "index", "row")
"""Headings of a column that numbers the rows, even with gaps."""

PARQUET_INDEX = "__index_level_"
"""What pandas calls an index that it writes into a parquet file, and this number of it."""

NO_INDEX = "write the file without an index (pandas: to_csv(…, index=False)), or give the column another name"

MISSING = ("", "NA", "N/A", "n/a", "<NA>", "#N/A", "NaN", "nan", "NULL", "null", "None")
"""What stands for nothing in a csv file."""

TRUTH = {"True": 1.0, "true": 1.0, "TRUE": 1.0, "False": 0.0, "false": 0.0, "FALSE": 0.0}

AnyArray = NDArray[Any]

Choose = Callable[[Sequence[str]], Mapping[str, int]]
"""Finds, by the headings, which columns hold labels and the like: what each is, and its place."""


class ParsedTable(NamedTuple):
    """Columns of numbers, shape (rows, columns), with their names if there are any; and those that were chosen."""

    names: list[str]
    numbers: NDArray[np.float64]
    chosen: dict[str, AnyArray]


def read_table(path: Path, choose: Choose, *, headed: bool = True) -> ParsedTable:
    """Return the table of a csv or parquet file; all columns that are not chosen hold numbers, and none of them rows'.

    A csv file that need not be headed may begin with its first row; a single column of words is `labels` then.
    """
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise UserError(f"{path}: a table is a .csv or .parquet file")
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    try:
        if path.suffix.lower() == ".csv":
            return _read_csv(path, choose, headed=headed)
        return _read_parquet(path, choose)
    except (UserError, RunError, MemoryError):
        raise
    except Exception as error:  # a damaged file can raise anything at all
        raise UserError(f"{path} is not a readable table: {brief(str(error))}") from error


def labels_of(path: Path, column: AnyArray, *, what: str = "label") -> AnyArray:
    """Return a column of labels, as numbers or as text without the spaces around it; a missing one is refused."""
    if column.dtype.kind == "O":
        column = np.array([value.strip() if isinstance(value, str) else value for value in column], object)
        missing = np.array([value is None or value == "" for value in column], bool)
    else:
        missing = ~np.isfinite(column)
    if missing.any():
        raise UserError(
            f"{path}: the {what} of row {int(missing.argmax()) + 1} is missing or infinite: no cell may be empty, nor "
            "hold what stands for that (NA, null, None and the like)"
        )
    return column


def _read_parquet(path: Path, choose: Choose) -> ParsedTable:
    with ArrowReader() as reader:
        columns = reader.table(path)
    names = [name for name, _ in columns]
    _refuse_indexes(path, names)
    places = choose(names)
    rest = [place for place in range(len(columns)) if place not in places.values()]
    for name, column in (columns[place] for place in rest):
        if column.dtype.kind not in "biuf":
            raise UserError(f"{path}: the column '{brief(name)}' holds no numbers; labels are in a column 'label'")
    numbers = np.empty((len(columns[0][1]) if columns else 0, len(rest)))
    for target, place in zip(numbers.T, rest, strict=True):
        target[:] = columns[place][1]
    chosen = {what: columns[place][1] for what, place in places.items()}
    return _without_index(path, rest, ParsedTable([names[place] for place in rest], numbers, chosen))


def _read_csv(path: Path, choose: Choose, *, headed: bool) -> ParsedTable:
    first, second = _first_two(path)
    with reading(path, 1):
        check_columns(len(first))
    if len(first) == 1:
        for separator, name in {";": "a semicolon", "\t": "a tab"}.items():
            if separator in first[0]:
                raise UserError(f"{path}, line 1: cells are separated by commas, not by {name}")
    headed = headed or _is_heading(path, first, second)
    names = [cell.strip().removeprefix("#").strip() for cell in first] if headed else []  # NumPy writes a #
    if headed and not second:
        raise UserError(f"{path}: there is nothing below the heading")
    if not headed and len(first) > 1 and list(map(float, first)) == list(range(len(first))):
        raise UserError(f"{path}, line 1: it counts the columns: give them names, or leave the line out")
    _refuse_indexes(path, names)
    places = dict(choose(names))
    if not places and len(first) == 1 and not _is_number((second if headed else first)[0]):
        places = {"labels": 0}
    rest = [place for place in range(len(first)) if place not in places.values()]
    return _without_index(path, rest, _parse(path, names, places, rest))


def _refuse_indexes(path: Path, names: Sequence[str]) -> None:
    for place, name in enumerate(names, start=1):
        if not name:
            raise UserError(f"{path}: column {place} has no name: {NO_INDEX}")
        if len(names) > 1 and (name.lower() in INDEXES or name.startswith(PARQUET_INDEX)):
            raise UserError(f"{path}: column {place} ('{brief(name)}') numbers the rows: {NO_INDEX}")


def _without_index(path: Path, places: Sequence[int], table: ParsedTable) -> ParsedTable:
    """Return the table, unless its first column holds consecutive numbers, each once and in any order."""
    numbers = table.numbers[:, 0] if len(places) > 1 and places[0] == 0 else np.empty(0)
    if len(numbers) > 2 and np.isfinite(numbers).all() and (np.diff(np.sort(numbers)) == 1).all():
        raise UserError(f"{path}: column 1 counts the rows: {NO_INDEX}; a feature that does so must not come first")
    return table


def _first_two(path: Path) -> tuple[list[str], list[str]]:
    rows = _rows(path)
    first, second = next(rows, (0, []))[1], next(rows, (0, []))[1]
    if not first:
        raise UserError(f"{path} is empty")
    return first, second


def _is_heading(path: Path, first: Sequence[str], second: Sequence[str]) -> bool:
    """Return whether the first line names the columns; in a single column of words, that may be unclear."""
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


def _parse(path: Path, names: Sequence[str], places: Mapping[str, int], rest: Sequence[int]) -> ParsedTable:
    """Convert all cells below the heading, and check the number of cells in each line."""
    width = len(places) + len(rest)
    numbers = array("d")
    words: dict[str, list[str]] = {what: [] for what in places}
    for line, cells in _rows(path, skip=bool(names)):
        if len(cells) != width:
            raise UserError(f"{path}, line {line}: {len(cells)} cells, where the first line has {width}")
        for what, place in places.items():
            words[what].append(cells[place].strip())
        values = [cells[place] for place in rest]
        try:
            if "_" in "".join(values):
                raise ValueError  # Python would read 1_000 as a number, unlike other programs
            numbers.extend(list(map(float, values)))
        except ValueError as error:
            plain = [TRUTH.get(value.strip(), value) for value in values]
            for place, value in zip(rest, plain, strict=True):
                if isinstance(value, str) and ("_" in value or not _is_number(value)):
                    said = f"holds '{brief(value)}', which is not a number" if value.strip() else "is empty"
                    raise UserError(f"{_cell(path, line, place, names)} {said}") from error
            numbers.extend(map(float, plain))
    features = np.frombuffer(numbers).reshape(-1, len(rest)) if rest else np.empty((len(next(iter(words.values()))), 0))
    if not np.isfinite(features).all():
        row, column = np.argwhere(~np.isfinite(features))[0]
        line, cells = next(islice(_rows(path, skip=bool(names)), int(row), None))
        where, cell = _cell(path, line, rest[column], names), brief(cells[rest[column]])
        raise UserError(f"{where} holds '{cell}', which is not a finite number")
    return ParsedTable(
        [names[place] for place in rest if names], features, {what: _typed(words[what]) for what in words}
    )


def _typed(words: Sequence[str]) -> AnyArray:
    """Return words as whole numbers or as others, if all of them are such; nothing where they stand for that."""
    known = [None if word in MISSING else word for word in words]
    if not all(word is not None and "_" not in word and _is_number(word) for word in known):
        return np.array(known, object)
    try:
        return np.array(list(map(int, words)))
    except ValueError:
        return np.array(words, float)


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


def _numbered(column: AnyArray) -> tuple[torch.Tensor, list[str]]:
    """Return numbers in the place of names, and the names in order: numbers by their size, before words."""
    words = column.astype(str).tolist()
    names = sorted(set(words), key=lambda name: (0, float(name), name) if _is_number(name) else (1, 0.0, name))
    numbers = {name: number for number, name in enumerate(names)}
    return torch.tensor([numbers[word] for word in words]), names


FLOAT32 = np.finfo(np.float32)

STEPS = 16
"""Steps of float32 that a standard deviation has at least."""

SMALLEST = 100 / float(FLOAT32.max)
"""A standard deviation whose reciprocal is a float32, with room for some hundred deviations."""


class TableFile(UserData):
    """Your own features in a csv or parquet file: data=table:PATH model=mlp.

    A row is an example. One column holds the labels, numbers or strings; all others are features and hold numbers. Each
    feature is standardized by its mean and standard deviation over the training examples. The column `split` says
    'train' or 'test' for each row; without it, every fifth row of a class is a test example. The column `client` says
    whose a row is, for partition=given.
    """

    path: Path = Field(description="the file")
    label: str | None = Field(
        None, description=f"the column of labels; by default the first of {', '.join(LABELS)} that exists"
    )
    split: str | None = Field(None, description="the column that says 'train' or 'test'; by default none")
    client: str | None = Field(
        None, description="the column that says whose a row is, such as its site; by default none"
    )

    @field_validator("augment")
    @classmethod
    def _refuse(cls, augment: tuple[Augmentation, ...]) -> tuple[Augmentation, ...]:
        if augment:
            raise ValueError("augmentation is for images, not for a table of features")
        return augment

    @property
    def images(self) -> bool:
        """False."""
        return False

    def read(self) -> Dataset:
        """Return features as images of one pixel, with a channel for each."""
        table = read_table(self.path, self._choose)
        y, names = _numbered(labels_of(self.path, table.chosen["label"]))
        with reading(self.path):
            check_classes(len(names))
        out = self._test_rows(table.chosen.get("split"), y)
        x = torch.from_numpy(self._features(table)[:, np.newaxis, np.newaxis, :])
        owners = self._owners(table.chosen["client"], out) if self.client else None
        dataset = Dataset.of(Images(x[~out], y[~out]), Images(x[out], y[out]), tuple(names), owners)
        self._refuse_unresolved(table.names, table.numbers[~out.numpy()], dataset.std)
        return dataset

    def _refuse_unresolved(self, names: Sequence[str], train: AnyArray, deviations: Sequence[float]) -> None:
        """Refuse features of which float32 would leave little more than rounding."""
        for name, column, deviation in zip(names, train.T, deviations, strict=True):
            largest, varies = float(np.abs(column).max()), bool((column != column[0]).any())
            spread = float((column / (largest or 1)).std())
            if varies and (spread < STEPS * FLOAT32.eps or deviation < SMALLEST):
                raise UserError(
                    f"{self.path}: '{brief(name)}' varies too little for float32 (by {spread * largest:.3g} around "
                    f"{column.mean():.6g}): subtract a constant from it, or scale it"
                )

    def _choose(self, names: Sequence[str]) -> dict[str, int]:
        places = {"label": self._column(self.label, LABELS, names)}
        asked = {"split": self.split, "client": self.client}
        return places | {what: self._column(name, (), names) for what, name in asked.items() if name is not None}

    def _owners(self, said: AnyArray, out: torch.Tensor) -> torch.Tensor:
        """Return the client of each training row, by the order of their names."""
        owners, names = _numbered(labels_of(self.path, said, what=str(self.client)))
        if absent := set(range(len(names))) - set(owners[~out].tolist()):
            raise UserError(f"{self.path}: {self.client} '{brief(names[min(absent)])}' has no training row")
        return owners[~out]

    def _column(self, asked: str | None, known: tuple[str, ...], names: Sequence[str]) -> int:
        found = next((name for name in ((asked,) if asked else known) if name in names), None)
        if found is None:
            wanted = f"'{asked}'" if asked else " or ".join(known)
            raise UserError(f"{self.path}: no column {wanted}: {brief(nearest(asked or known[0], names))}")
        if names.count(found) > 1:
            raise UserError(f"{self.path}: several columns are called '{brief(found)}'")
        return names.index(found)

    def _test_rows(self, said: AnyArray | None, labels: torch.Tensor) -> torch.Tensor:
        if said is None:
            out = split_off_test(labels)
        else:
            words = said.astype(str)
            if other := sorted(set(words.tolist()) - {"train", "test"}):
                raise UserError(f"{self.path}: {self.split} is 'train' or 'test', not '{brief(other[0])}'")
            out = torch.from_numpy(words == "test")
        if not bool(out.any()) or bool(out.all()):
            raise UserError(f"{self.path}: there are no {'training' if bool(out.all()) else 'test'} examples")
        return out

    def _features(self, table: ParsedTable) -> NDArray[np.float32]:
        if not table.names:
            raise UserError(f"{self.path}: no column is left for features")
        with np.errstate(over="ignore"):  # too large numbers are refused below
            values = table.numbers.astype(np.float32)
        if not np.isfinite(values).all():
            row, column = np.argwhere(~np.isfinite(values))[0]
            said = f"'{brief(table.names[column])}' of row {row + 1}"
            raise UserError(f"{self.path}: {said} is missing or infinite")
        return values
