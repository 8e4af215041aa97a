"""Untrusted pickles: plain Python values and stand-ins for a few names, nothing else.

This small interpreter knows only the opcodes that such files need. Where a file names a part of numpy or PyTorch, a
stand-in records the arguments, and arrays are built afterwards from checked values. So nothing that the file chooses is
called, and the number of opcodes bounds time and memory. `pickle.Unpickler`, even with an allow-list, takes gigabytes
for a large memo index, and forever for the hash of a tuple that contains itself many times.
"""

from __future__ import annotations

import io
import math
import mmap
import pickletools
from collections.abc import Callable, Mapping
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from feddecorr.core import limits
from feddecorr.core.limits import brief
from feddecorr.errors import UserError


class StandIn:
    """Takes the place of a library's object: it records its state, and does nothing."""

    state: Any = None


class StoredArray(StandIn):
    """An array as a pickle describes it: the state that numpy would receive."""

    def value(self) -> NDArray[np.uint8]:
        """Return the array, which must be of bytes and in row order."""
        _, shape, dtype, columns_first, content = self.state
        if not isinstance(dtype, StoredDtype) or dtype.name != "u1" or columns_first:
            raise ValueError("an array that is not of unsigned bytes in row order")
        if not isinstance(content, str | bytes):
            raise ValueError("an array, but its content is not bytes")
        raw = content.encode("latin1") if isinstance(content, str) else content
        if len(raw) != count_elements(shape):
            raise ValueError(f"an array of {len(raw)} bytes where its shape {shape} says {count_elements(shape)}")
        return np.frombuffer(raw, dtype=np.uint8).reshape(shape)


class StoredDtype(StandIn):
    """An array's dtype as a pickle describes it: its name; byte order does not matter for bytes."""

    def __init__(self, name: str, *_: object) -> None:
        self.name = name


def count_elements(shape: object) -> int:
    """Return the number of elements of an array; refuse what is not a shape."""
    if not isinstance(shape, tuple) or len(shape) > 32:
        raise ValueError("an array without a shape")
    if not all(type(side) is int and 0 <= side < 1 << 48 for side in shape):
        raise ValueError("an array whose shape does not consist of whole numbers")
    return math.prod(shape)


Names = Mapping[str, Callable[..., object]]
"""The names that are allowed (module, a space, name), and their stand-ins."""

ARRAYS: Names = {
    "numpy.core.multiarray _reconstruct": lambda *_: StoredArray(),
    "numpy._core.multiarray _reconstruct": lambda *_: StoredArray(),
    "numpy ndarray": lambda *_: StoredArray(),
    "numpy dtype": StoredDtype,
}

CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
}
VALUES = frozenset(
    [
        "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING", "BINSTRING",
        "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES",
        "BINBYTES8",
    ]
)  # fmt: skip
"""Opcodes whose argument is the value."""

_MARK = object()


class ForeignNameError(ValueError):
    """A pickle asks for something that is not in its reader's table."""

    def __init__(self, name: str) -> None:
        super().__init__(f"it asks for {brief(name)}, and only plain arrays are allowed")
        self.name = name


class PickleReader:
    """Interprets a pickle's opcodes with a stack and a memo.

    `allowed` are the names that may be used. `find` resolves persistent ids. Containers may be read from the memo only
    with `shared`: such a container can contain itself, so callers must not recurse into it.
    """

    def __init__(self, allowed: Names, *, find: Callable[[Any], object] | None = None, shared: bool = False) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.allowed = allowed
        self.find = find
        self.shared = shared

    def run(self, stream: IO[bytes] | mmap.mmap) -> Any:
        """Interpret one pickle up to its end, and return its value."""
        for count, (opcode, argument, _) in enumerate(pickletools.genops(stream)):  # type: ignore[arg-type]  # it reads, and reads lines
            name = opcode.name
            if count >= limits.COMMANDS:
                raise ValueError(f"it has more than {limits.COMMANDS:,} commands")
            if name in VALUES:
                self.stack.append(argument)
            elif name in CONSTANTS:
                self.stack.append(CONSTANTS[name]())
            elif name == "STOP":
                break
            elif name in OPCODES:
                OPCODES[name](self, argument)
            elif name not in ("PROTO", "FRAME"):
                raise ValueError(f"the opcode {name} is not allowed")
        (result,) = self.stack
        return result

    def pop(self, count: int) -> list[Any]:
        """Pop the last values."""
        found = self.stack[-count:]
        if len(found) < count or any(value is _MARK for value in found):
            raise ValueError("a value is missing")
        del self.stack[-count:]
        return found

    def pop_marked(self) -> list[Any]:
        """Pop all values down to the mark."""
        place = len(self.stack) - 1
        while place >= 0 and self.stack[place] is not _MARK:
            place -= 1
        if place < 0:
            raise ValueError("a mark is missing")
        found = self.stack[place + 1 :]
        del self.stack[place:]
        return found

    def put(self, number: int | None) -> None:
        """Put the last value into the memo."""
        self.memo[len(self.memo) if number is None else int(number)] = self.stack[-1]

    def get(self, number: int) -> None:
        """Push a value of the memo; a container only with `shared`."""
        value = self.memo[int(number)]
        if isinstance(value, list | tuple | dict) and not self.shared:
            raise ValueError("it reads a list, tuple or dictionary from its memo")
        self.stack.append(value)

    def append(self, values: list[Any]) -> None:
        """Append to the list on top of the stack."""
        target = self.stack[-1]
        if not isinstance(target, list):
            raise ValueError("it appends to what is not a list")
        target.extend(values)

    def set(self, pairs: list[Any], new: dict[Any, Any] | None = None) -> None:
        """Add keys and values to the dictionary on top of the stack, or to a new one."""
        if new is not None:
            self.stack.append(new)
        target, keys = self.stack[-1], pairs[::2]
        if (
            not isinstance(target, dict)
            or len(pairs) % 2
            or not all(isinstance(key, str | bytes | int) for key in keys)
        ):
            raise ValueError("it sets what are not keys of a dictionary")
        target.update(zip(keys, pairs[1::2], strict=True))

    def name(self, named: str) -> None:
        """Push the stand-in for a name."""
        if named not in self.allowed:
            raise ForeignNameError(named.replace(" ", "."))
        self.stack.append(self.allowed[named])

    def call(self) -> None:
        """Create a stand-in."""
        called, arguments = self.pop(2)
        if not any(called is each for each in self.allowed.values()) or not isinstance(arguments, tuple):
            raise ValueError("it calls what is not callable")
        self.stack.append(called(*arguments))

    def build(self) -> None:
        """Set the state of a stand-in."""
        (state,) = self.pop(1)
        if not isinstance(self.stack[-1], StandIn):
            raise ValueError("it sets the state of what has none")
        self.stack[-1].state = state

    def persistent(self) -> None:
        """Push what a persistent id names."""
        if self.find is None:
            raise ValueError("it has a persistent id")
        (named,) = self.pop(1)
        self.stack.append(self.find(named))


def _push_tuple(count: int) -> Callable[[PickleReader, Any], None]:
    return lambda reader, _: reader.stack.append(tuple(reader.pop(count)))


OPCODES: dict[str, Callable[[PickleReader, Any], None]] = {
    "MARK": lambda reader, _: reader.stack.append(_MARK),
    "POP": lambda reader, _: reader.stack.__delitem__(-1),
    "TUPLE": lambda reader, _: reader.stack.append(tuple(reader.pop_marked())),
    "TUPLE1": _push_tuple(1),
    "TUPLE2": _push_tuple(2),
    "TUPLE3": _push_tuple(3),
    "LIST": lambda reader, _: reader.stack.append(reader.pop_marked()),
    "DICT": lambda reader, _: reader.set(reader.pop_marked(), {}),
    "APPEND": lambda reader, _: reader.append(reader.pop(1)),
    "APPENDS": lambda reader, _: reader.append(reader.pop_marked()),
    "SETITEM": lambda reader, _: reader.set(reader.pop(2)),
    "SETITEMS": lambda reader, _: reader.set(reader.pop_marked()),
    "PUT": lambda reader, number: reader.put(number),
    "BINPUT": lambda reader, number: reader.put(number),
    "LONG_BINPUT": lambda reader, number: reader.put(number),
    "MEMOIZE": lambda reader, _: reader.put(None),
    "GET": lambda reader, number: reader.get(number),
    "BINGET": lambda reader, number: reader.get(number),
    "LONG_BINGET": lambda reader, number: reader.get(number),
    "GLOBAL": lambda reader, named: reader.name(named),
    "STACK_GLOBAL": lambda reader, _: reader.name(" ".join(reader.pop(2))),
    "REDUCE": lambda reader, _: reader.call(),
    "BUILD": lambda reader, _: reader.build(),
    "BINPERSID": lambda reader, _: reader.persistent(),
}


def load_pickle(name: str, content: bytes) -> dict[str, Any]:
    """Return the dictionary in a file like CIFAR's (written by Python 2), with numpy arrays."""
    try:
        stored = PickleReader(ARRAYS).run(io.BytesIO(content))
        if not isinstance(stored, dict):
            raise ValueError(f"it holds {type(stored).__name__}, not a dictionary")
        return {str(key): value.value() if isinstance(value, StoredArray) else value for key, value in stored.items()}
    except Exception as error:  # a broken pickle can raise anything at all
        message = f"{name}: not a pickle of a data set, or cut off ({len(content):,} bytes): {brief(str(error))}"
        raise UserError(message) from error
