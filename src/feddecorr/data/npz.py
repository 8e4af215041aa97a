"""Arrays in npz files: read within the limits, whoever wrote them, and as a data set of your own."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from pydantic import Field

from feddecorr.core.files import reading
from feddecorr.core.limits import Allowance, check_classes, check_plain, read_at_most
from feddecorr.data.arrays import Arrays, from_arrays
from feddecorr.data.dataset import Dataset, UserData
from feddecorr.data.tables import AnyArray
from feddecorr.errors import UserError

NPY_HEADER = 10_000
"""Bytes that the header of an npy file may have, as NumPy has it."""

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


def read_npz(path: Path) -> dict[str, AnyArray]:
    """Return the arrays by name; nothing is unpickled, and sizes count that are read, not those that are claimed."""
    if not path.exists():
        raise UserError(f"there is no file {path}")
    try:
        check_plain(path)
        return dict(_arrays(path))
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    except MemoryError:
        raise
    except Exception as error:  # a broken file can raise anything at all
        raise UserError(f"{path}: not an npz file of plain arrays: {error}") from error


def _arrays(path: Path) -> Iterator[tuple[str, AnyArray]]:
    allowance = Allowance(path.stat().st_size)
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as stream:
                yield name.removesuffix(".npy"), _array(stream, allowance)


def _array(stream: IO[bytes], allowance: Allowance) -> AnyArray:
    """Return the array of one member: what its header says has to follow, and no more than is allowed."""
    shape, columns_first, dtype = read_npy_header(stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    size = math.prod(shape) * dtype.itemsize
    allowance.take(size)
    content = read_at_most(stream, size + 1)
    if len(content) != size:
        raise ValueError(f"{len(content):,} bytes where the shape {shape} says {size:,}")
    return np.frombuffer(content, dtype).reshape(shape, order="F" if columns_first else "C")


def read_npy_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return the shape, whether columns come first, and the type; a header is short, whatever length it claims."""
    version = np.lib.format.read_magic(stream)
    length = stream.read(2 if version == (1, 0) else 4)
    if (size := int.from_bytes(length, "little")) > NPY_HEADER:
        raise ValueError(f"its header claims {size:,} bytes, more than {NPY_HEADER:,}")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        return read(io.BytesIO(length + stream.read(size)))
    except MemoryError as error:  # Python's parser
        raise ValueError("its header is nested too deeply") from error
