"""Arrays in npz files, which are zip files: read no further than what such files honestly hold."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from feddecorr.core.limits import Allowance
from feddecorr.errors import UserError

CHUNK = 1 << 20

Array = NDArray[Any]


def read_npz(path: Path) -> dict[str, Array]:
    """Return the arrays by name; nothing is unpickled, and sizes count that are read, not those that are claimed."""
    try:
        return dict(_arrays(path))
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    except MemoryError:
        raise
    except Exception as error:  # a broken file can raise anything at all
        raise UserError(f"{path}: not an npz file of plain arrays: {error}") from error


def _arrays(path: Path) -> Iterator[tuple[str, Array]]:
    allowance = Allowance(path.stat().st_size)
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as stream:
                yield name.removesuffix(".npy"), _array(stream, allowance)


def _array(stream: IO[bytes], allowance: Allowance) -> Array:
    """Return the array of one member: what its header says has to follow, and no more than is allowed."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, columns_first, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    size = math.prod(shape) * dtype.itemsize
    allowance.take(size)
    content = read_at_most(stream, size + 1)
    if len(content) != size:
        raise ValueError(f"{len(content):,} bytes where the shape {shape} says {size:,}")
    return np.frombuffer(content, dtype).reshape(shape, order="F" if columns_first else "C")


def read_at_most(stream: IO[bytes] | io.BufferedIOBase, limit: int) -> bytearray:
    """Return what a stream holds, up to the limit; memory grows with what has come, not with what was announced."""
    content = bytearray()
    while len(content) < limit and (chunk := stream.read(min(CHUNK, limit - len(content)))):
        content += chunk
    return content
