"""Your own features, in a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, field_validator

from feddecorr.core.files import reading
from feddecorr.core.limits import brief, check_classes
from feddecorr.data.dataset import Augmentation, Dataset, Images, UserData, split_off_test
from feddecorr.data.tables import labels_of, read_table
from feddecorr.errors import UserError, nearest

if TYPE_CHECKING:
    import pandas as pd

LABELS = ("label", "class", "target", "y")

FLOAT32 = np.finfo(np.float32)

STEPS = 16
"""Steps of float32 that a standard deviation has at least."""

SMALLEST = 100 / float(FLOAT32.max)
"""A standard deviation whose reciprocal is a float32, with room for some hundred deviations."""


class TableFile(UserData):
    """Your own features in a csv or parquet file: data=table:PATH model=mlp.

    A row is an example. One column holds the labels, numbers or strings; all others are features and hold numbers. Each
    feature is standardized by its mean and standard deviation over the training examples. The column `split` says
    'train' or 'test' for each row; without it, every fifth row of a class is a test example.
    """

    images: ClassVar[bool] = False

    path: Path = Field(description="the file")
    label: str | None = Field(
        None, description=f"the column of labels; by default the first of {', '.join(LABELS)} that exists"
    )
    split: str | None = Field(None, description="the column that says 'train' or 'test'; by default none")

    @field_validator("augment")
    @classmethod
    def _refuse(cls, augment: tuple[Augmentation, ...]) -> tuple[Augmentation, ...]:
        if augment:
            raise ValueError("augmentation is for images, not for a table of features")
        return augment

    def read(self) -> Dataset:
        """Return features as images of one pixel, with a channel for each."""
        table = read_table(self.path)
        label = self._column(self.label, LABELS, table)
        words = labels_of(self.path, table.pop(label)).astype(str).tolist()
        with reading(self.path):
            check_classes(len(set(words)))
        names = sorted(set(words), key=lambda name: (0, float(name), name) if _is_number(name) else (1, 0.0, name))
        numbers = {name: number for number, name in enumerate(names)}
        y = torch.tensor([numbers[word] for word in words])
        out = self._test_rows(table, y)
        x = torch.from_numpy(self._features(table)[:, np.newaxis, np.newaxis, :])
        dataset = Dataset.of(Images(x[~out], y[~out]), Images(x[out], y[out]), tuple(names))
        self._refuse_unresolved(table.iloc[np.flatnonzero(~out.numpy())], dataset.std)
        return dataset

    def _refuse_unresolved(self, train: pd.DataFrame, deviations: Sequence[float]) -> None:
        """Refuse features of which float32 would leave little more than rounding."""
        for place, (name, deviation) in enumerate(zip(train.columns, deviations, strict=True)):
            column = train.iloc[:, place].to_numpy(np.float64)
            largest, varies = float(np.abs(column).max()), bool((column != column[0]).any())
            spread = float((column / (largest or 1)).std())
            if varies and (spread < STEPS * FLOAT32.eps or deviation < SMALLEST):
                raise UserError(
                    f"{self.path}: '{brief(name)}' varies too little for float32 (by {spread * largest:.3g} around "
                    f"{column.mean():.6g}): subtract a constant from it, or scale it"
                )

    def _column(self, asked: str | None, known: tuple[str, ...], table: pd.DataFrame) -> str:
        names = [str(name) for name in table.columns]
        found = next((name for name in ((asked,) if asked else known) if name in names), None)
        if names.count(found or "") > 1:
            raise UserError(f"{self.path}: several columns are called '{brief(found)}'")
        if found is None:
            wanted = f"'{asked}'" if asked else " or ".join(known)
            raise UserError(f"{self.path}: no column {wanted}: {brief(nearest(asked or known[0], names))}")
        return found

    def _test_rows(self, table: pd.DataFrame, labels: torch.Tensor) -> torch.Tensor:
        if self.split is None:
            out = split_off_test(labels)
        else:
            said = table.pop(self._column(self.split, (), table)).astype(str)
            if other := sorted(set(said) - {"train", "test"}):
                raise UserError(f"{self.path}: {self.split} is 'train' or 'test', not '{brief(other[0])}'")
            out = torch.from_numpy((said == "test").to_numpy(copy=True))
        if not bool(out.any()) or bool(out.all()):
            raise UserError(f"{self.path}: there are no {'training' if bool(out.all()) else 'test'} examples")
        return out

    def _features(self, table: pd.DataFrame) -> NDArray[np.float32]:
        if not len(table.columns):
            raise UserError(f"{self.path}: no column is left for features")
        for name, kind in zip(table.columns, table.dtypes, strict=True):
            if kind.kind not in "biuf":
                raise UserError(f"{self.path}: the column '{brief(name)}' holds {kind}, not numbers")
        with np.errstate(over="ignore"):  # too large numbers are refused below
            values: NDArray[np.float32] = table.to_numpy(dtype=np.float32, copy=True)
        if not np.isfinite(values).all():
            row, column = np.argwhere(~np.isfinite(values))[0]
            said = f"'{brief(table.columns[column])}' of row {row + 1}"
            raise UserError(f"{self.path}: {said} is missing or infinite")
        return values


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
