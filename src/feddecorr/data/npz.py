"""Your own arrays, in one npz file."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from feddecorr.core.files import reading
from feddecorr.core.limits import check_classes
from feddecorr.core.npz import read_npz
from feddecorr.data.arrays import Arrays, from_arrays
from feddecorr.data.dataset import Dataset, UserData
from feddecorr.errors import UserError

NAMES = (
    ("x_train", "y_train", "x_test", "y_test"),
    ("train_images", "train_labels", "test_images", "test_labels"),
    ("x", "y", "", ""),
    ("pixels", "labels", "", ""),
)
"""Possible names of the arrays; without test images, every fifth of each class becomes one."""


class Npz(UserData):
    """Your own arrays in an npz file: data=npz:PATH.

    `x_train`, `y_train`, `x_test`, `y_test` (or `train_images`, `train_labels`, `test_images`, `test_labels`):
    pixels in uint8 of shape (n, height, width), (n, height, width, channels) or (n, channels, height, width), or
    floats from 0 to 1, which are multiplied by 255 and rounded; labels as whole numbers from 0, or words.
    With only `x` and `y` (or `pixels` and `labels`), every fifth image of a class is a test image. `classes` may
    contain the names of the classes.
    """

    path: Path = Field(description="the file")

    def read(self) -> Dataset:
        """Return the images."""
        arrays = read_npz(self.path)
        found = next((names for names in NAMES if all(name in arrays for name in names if name)), None)
        if found is None:
            choices = " or ".join(", ".join(name for name in names if name) for names in NAMES)
            raise UserError(f"{self.path}: holds {', '.join(arrays) or 'nothing'}; expected {choices}")
        with reading(self.path):
            return from_arrays(arrays, found, classes=_names(arrays))


def _names(arrays: Arrays) -> list[str] | None:
    if "classes" not in arrays:
        return None
    named = arrays["classes"].reshape(-1).tolist()
    check_classes(len(named))
    return [name.decode() if isinstance(name, bytes) else str(name) for name in named]
