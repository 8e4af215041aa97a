"""The idx format: arrays of bytes after a header of their shape."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from feddecorr.errors import UserError

BYTES = 0x08
"""The code of unsigned bytes, the only type that is read."""


def read_idx(name: str, content: bytes, dimensions: int) -> NDArray[np.uint8]:
    """Read an idx file: two zero bytes, the type, the number of dimensions, each of them, then the values."""
    start = 4 + 4 * dimensions
    if content[:4] != bytes([0, 0, BYTES, dimensions]) or len(content) < start:
        expected = bytes([0, 0, BYTES, dimensions]).hex()
        raise UserError(f"{name}: begins with {content[:4].hex() or 'nothing'}, expected {expected} (idx of bytes)")
    shape = struct.unpack(f">{dimensions}I", content[4:start])
    values = np.frombuffer(content, dtype=np.uint8, offset=start)
    if values.size != np.prod(shape, dtype=object):
        size = start + int(np.prod(shape, dtype=object))
        raise UserError(f"{name}: {len(content):,} bytes, expected {size:,} for the shape {shape}: cut off?")
    return values.reshape(shape)


def write_idx(values: NDArray[np.uint8]) -> bytes:
    """Return the idx file of an array of bytes."""
    return bytes([0, 0, BYTES, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()
