"""Pickles of untrusted origin: numpy arrays of bytes and plain Python values, and nothing else.

Not even numpy is called while such a file is read: where it names a piece of numpy, a stand-in notes what the
file says, and the array is built afterwards from checked values.
"""

from __future__ import annotations

import io
import math
import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feddecorr.errors import UserError


class StoredArray:
    """What a pickle says of an array: the state that numpy would be given."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def value(self) -> NDArray[np.uint8]:
        """Return the array, which must be of bytes and in row order."""
        _, shape, dtype, columns_first, content = self.state
        if not isinstance(dtype, StoredType) or dtype.name != "u1" or columns_first:
            raise ValueError("an array that is not of unsigned bytes in row order")
        raw = content.encode("latin1") if isinstance(content, str) else bytes(content)
        if len(raw) != math.prod(shape):
            raise ValueError(f"an array of {len(raw)} bytes where its shape {shape} says {math.prod(shape)}")
        return np.frombuffer(raw, dtype=np.uint8).reshape(shape)


class StoredType:
    """What a pickle says of an array's type: its name."""

    __slots__ = ("name",)

    def __init__(self, name: str, *_: object) -> None:
        self.name = name

    def __setstate__(self, state: Any) -> None:
        """Byte order and the like do not matter for bytes."""


class _Reconstruct:
    __slots__ = ()

    def __call__(self, *_: object) -> StoredArray:
        return StoredArray()


ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Reconstruct(),
    ("numpy._core.multiarray", "_reconstruct"): _Reconstruct(),
    ("numpy", "ndarray"): StoredArray,
    ("numpy", "dtype"): StoredType,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, and only numpy arrays are allowed")
        return ALLOWED[module, name]


def load_pickle(name: str, content: bytes) -> dict[str, Any]:
    """Return the dictionary in a file of CIFAR's kind (written by Python 2), its arrays as numpy arrays."""
    try:
        stored = _Unpickler(io.BytesIO(content), encoding="latin1").load()
        if not isinstance(stored, dict):
            raise ValueError(f"it holds {type(stored).__name__}, not a dictionary")
        return {str(key): value.value() if isinstance(value, StoredArray) else value for key, value in stored.items()}
    except Exception as error:  # a broken pickle can raise anything at all
        message = f"{name}: no pickle of a data set, or cut off ({len(content):,} bytes): {error}"
        raise UserError(message) from error
