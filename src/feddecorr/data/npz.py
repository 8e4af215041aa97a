"""Your own arrays, in one npz file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from feddecorr.core.files import reading
from feddecorr.core.limits import check_classes, check_labels, read_npz
from feddecorr.data.dataset import Dataset, Images, UserData, split_off_test
from feddecorr.errors import UserError

NAMES = (
    ("x_train", "y_train", "x_test", "y_test"),
    ("train_images", "train_labels", "test_images", "test_labels"),
    ("x", "y", "", ""),
    ("pixels", "labels", "", ""),
)
"""Possible names of the arrays; without test images, every fifth of each class becomes one."""

Arrays = dict[str, NDArray[Any]]


class Npz(UserData):
    """Your own arrays in an npz file: data=npz:PATH.

    `x_train`, `y_train`, `x_test`, `y_test` (or `train_images`, `train_labels`, `test_images`, `test_labels`):
    pixels in uint8 of shape (n, height, width) or (n, height, width, channels), labels as whole numbers from 0.
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
        pixels, labels, test_pixels, test_labels = found
        train = self._images(arrays, pixels, labels)
        if test_pixels:
            test = self._images(arrays, test_pixels, test_labels)
            if test.pixels.shape[1:] != train.pixels.shape[1:]:
                shapes = f"{tuple(train.pixels.shape[1:])} and {tuple(test.pixels.shape[1:])}"
                raise UserError(f"{self.path}: training and test images have different shapes, {shapes}")
        else:
            out = split_off_test(train.labels)
            if not bool(out.any()):
                raise UserError(f"{self.path}: a class needs at least five images to give a test image")
            test = Images(train.pixels[out], train.labels[out])
            train = Images(train.pixels[~out], train.labels[~out])
        return Dataset.of(train, test, self._classes(arrays, train, test))

    def _images(self, arrays: Arrays, pixels: str, labels: str) -> Images:
        x, y = arrays[pixels], arrays[labels]
        if x.dtype != np.uint8 or x.ndim not in (3, 4):
            shapes = "(n, height, width) or (n, height, width, channels)"
            raise UserError(f"{self.path}: {pixels} is {x.dtype} of shape {x.shape}; expected uint8 of {shapes}")
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        if not np.issubdtype(y.dtype, np.integer) or y.shape != x.shape[:1] or not len(y):
            raise UserError(
                f"{self.path}: {labels} is {y.dtype} of shape {y.shape}; expected {len(x)} whole numbers from 0 on"
            )
        try:
            check_labels(y)
        except UserError as error:
            raise UserError(f"{self.path}: {labels}, {error}") from error
        images = torch.from_numpy(np.ascontiguousarray(x if x.ndim == 4 else x[..., np.newaxis]))
        return Images(images, torch.from_numpy(y.astype(np.int64)))

    def _classes(self, arrays: Arrays, train: Images, test: Images) -> tuple[str, ...]:
        count = 1 + int(max(train.labels.max(), test.labels.max()))
        if "classes" not in arrays:
            return tuple(str(label) for label in range(count))
        found = arrays["classes"].reshape(-1).tolist()
        with reading(self.path):
            names = tuple(name.decode() if isinstance(name, bytes) else str(name) for name in found)
            check_classes(len(names))
        if len(names) < count:
            raise UserError(f"{self.path}: {len(names)} names of classes, but labels up to {count - 1}")
        return names
