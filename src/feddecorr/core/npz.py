"""Files of NumPy's arrays from anybody, read within the limits."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from feddecorr.core.limits import Allowance, check_plain, read_at_most
from feddecorr.errors import UserError

NPY_HEADER = 10_000
"""Bytes that the header of an npy file may have, as NumPy has it."""

AnyArray = NDArray[Any]


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
