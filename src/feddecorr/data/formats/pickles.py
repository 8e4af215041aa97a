"""Pickles of untrusted origin: plain Python values and what stands in for a few names, and nothing else.

No unpickler reads them, but a small machine for the few commands that such files need. Where a file names a piece of
numpy or PyTorch, a stand-in notes what it says, and arrays are built afterwards from checked values. So nothing of the
file's choice is called, and time and memory are bounded by the number of commands: Python's own unpickler takes
gigabytes for a place in its memory with a large number, and forever for the hash of a tuple that holds itself often.
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
    """What a pickle makes where it names a piece of a library: it notes its state, and does nothing."""

    state: Any = None


class StoredArray(StandIn):
    """What a pickle says of an array: the state that numpy would be given."""

    def value(self) -> NDArray[np.uint8]:
        """Return the array, which must be of bytes and in row order."""
        _, shape, dtype, columns_first, content = self.state
        if not isinstance(dtype, StoredType) or dtype.name != "u1" or columns_first:
            raise ValueError("an array that is not of unsigned bytes in row order")
        if not isinstance(content, str | bytes):
            raise ValueError("an array, but its content is no bytes")
        raw = content.encode("latin1") if isinstance(content, str) else content
        if len(raw) != product(shape):
            raise ValueError(f"an array of {len(raw)} bytes where its shape {shape} says {product(shape)}")
        return np.frombuffer(raw, dtype=np.uint8).reshape(shape)


class StoredType(StandIn):
    """What a pickle says of an array's type: its name; byte order and the like do not matter for bytes."""

    def __init__(self, name: str, *_: object) -> None:
        self.name = name


def product(shape: object) -> int:
    """Return how many numbers an array of that shape has; refuse what is no shape."""
    if not isinstance(shape, tuple) or len(shape) > 32:
        raise ValueError("an array without a shape")
    if not all(type(side) is int and 0 <= side < 1 << 48 for side in shape):
        raise ValueError("an array whose shape is of no whole numbers")
    return math.prod(shape)


Names = Mapping[str, Callable[..., object]]
"""What may be named (module, a space, name), and what stands in for it."""

ARRAYS: Names = {
    "numpy.core.multiarray _reconstruct": lambda *_: StoredArray(),
    "numpy._core.multiarray _reconstruct": lambda *_: StoredArray(),
    "numpy ndarray": lambda *_: StoredArray(),
    "numpy dtype": StoredType,
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
"""Commands whose argument is the value."""

_MARK = object()


class Machine:
    """What a pickle's commands work on: a stack, and values to come back to.

    `allowed` is what may be named. With `find`, a pickle may ask for what lies outside of it. Values that hold others
    may be come back to only if they are `shared` on purpose: such a value can hold itself, so nobody may walk through.
    """

    def __init__(self, allowed: Names, *, find: Callable[[Any], object] | None = None, shared: bool = False) -> None:
        self.stack: list[Any] = []
        self.kept: dict[int, Any] = {}
        self.allowed = allowed
        self.find = find
        self.shared = shared

    def run(self, stream: IO[bytes] | mmap.mmap) -> Any:
        """Follow all commands up to the end of one pickle, and return what is left."""
        for count, (command, argument, _) in enumerate(pickletools.genops(stream)):  # type: ignore[arg-type]  # it reads, and reads lines
            name = command.name
            if count >= limits.COMMANDS:
                raise ValueError(f"it has more than {limits.COMMANDS:,} commands")
            if name in VALUES:
                self.stack.append(argument)
            elif name in CONSTANTS:
                self.stack.append(CONSTANTS[name]())
            elif name == "STOP":
                break
            elif name in COMMANDS:
                COMMANDS[name](self, argument)
            elif name not in ("PROTO", "FRAME"):
                raise ValueError(f"the command {name} has no place in it")
        (result,) = self.stack
        return result

    def take(self, count: int) -> list[Any]:
        """Take the last values off the stack."""
        found = self.stack[-count:]
        if len(found) < count or any(value is _MARK for value in found):
            raise ValueError("a value is missing")
        del self.stack[-count:]
        return found

    def take_marked(self) -> list[Any]:
        """Take all values down to the mark."""
        place = len(self.stack) - 1
        while place >= 0 and self.stack[place] is not _MARK:
            place -= 1
        if place < 0:
            raise ValueError("a mark is missing")
        found = self.stack[place + 1 :]
        del self.stack[place:]
        return found

    def keep(self, number: int | None) -> None:
        """Keep the last value."""
        self.kept[len(self.kept) if number is None else int(number)] = self.stack[-1]

    def get(self, number: int) -> None:
        """Come back to a value; to one that holds others only if that was asked for."""
        value = self.kept[int(number)]
        if isinstance(value, list | tuple | dict) and not self.shared:
            raise ValueError("it comes back to a list, tuple or dictionary")
        self.stack.append(value)

    def append(self, values: list[Any]) -> None:
        """Add to the list that is last."""
        target = self.stack[-1]
        if not isinstance(target, list):
            raise ValueError("it adds to what is no list")
        target.extend(values)

    def set(self, pairs: list[Any], new: dict[Any, Any] | None = None) -> None:
        """Add keys and values to the dictionary that is last, or to a new one."""
        if new is not None:
            self.stack.append(new)
        target, keys = self.stack[-1], pairs[::2]
        if (
            not isinstance(target, dict)
            or len(pairs) % 2
            or not all(isinstance(key, str | bytes | int) for key in keys)
        ):
            raise ValueError("it sets what are no names of a dictionary")
        target.update(zip(keys, pairs[1::2], strict=True))

    def name(self, named: str) -> None:
        """Put what stands in for a name on the stack."""
        if named not in self.allowed:
            raise ValueError(f"it asks for {brief(named.replace(' ', '.'))}, and only plain arrays are allowed")
        self.stack.append(self.allowed[named])

    def call(self) -> None:
        """Make a stand-in."""
        called, arguments = self.take(2)
        if not any(called is each for each in self.allowed.values()) or not isinstance(arguments, tuple):
            raise ValueError("it calls what cannot be called")
        self.stack.append(called(*arguments))

    def build(self) -> None:
        """Tell a stand-in its state."""
        (state,) = self.take(1)
        if not isinstance(self.stack[-1], StandIn):
            raise ValueError("it gives a state to what has none")
        self.stack[-1].state = state

    def ask(self) -> None:
        """Put what lies outside of the pickle on the stack."""
        if self.find is None:
            raise ValueError("it asks for what lies outside of it")
        (named,) = self.take(1)
        self.stack.append(self.find(named))


def _push_tuple(count: int) -> Callable[[Machine, Any], None]:
    return lambda machine, _: machine.stack.append(tuple(machine.take(count)))


COMMANDS: dict[str, Callable[[Machine, Any], None]] = {
    "MARK": lambda machine, _: machine.stack.append(_MARK),
    "POP": lambda machine, _: machine.stack.__delitem__(-1),
    "TUPLE": lambda machine, _: machine.stack.append(tuple(machine.take_marked())),
    "TUPLE1": _push_tuple(1),
    "TUPLE2": _push_tuple(2),
    "TUPLE3": _push_tuple(3),
    "LIST": lambda machine, _: machine.stack.append(machine.take_marked()),
    "DICT": lambda machine, _: machine.set(machine.take_marked(), {}),
    "APPEND": lambda machine, _: machine.append(machine.take(1)),
    "APPENDS": lambda machine, _: machine.append(machine.take_marked()),
    "SETITEM": lambda machine, _: machine.set(machine.take(2)),
    "SETITEMS": lambda machine, _: machine.set(machine.take_marked()),
    "PUT": lambda machine, number: machine.keep(number),
    "BINPUT": lambda machine, number: machine.keep(number),
    "LONG_BINPUT": lambda machine, number: machine.keep(number),
    "MEMOIZE": lambda machine, _: machine.keep(None),
    "GET": lambda machine, number: machine.get(number),
    "BINGET": lambda machine, number: machine.get(number),
    "LONG_BINGET": lambda machine, number: machine.get(number),
    "GLOBAL": lambda machine, named: machine.name(named),
    "STACK_GLOBAL": lambda machine, _: machine.name(" ".join(machine.take(2))),
    "REDUCE": lambda machine, _: machine.call(),
    "BUILD": lambda machine, _: machine.build(),
    "BINPERSID": lambda machine, _: machine.ask(),
}


def load_pickle(name: str, content: bytes) -> dict[str, Any]:
    """Return the dictionary in a file of CIFAR's kind (written by Python 2), its arrays as numpy arrays."""
    try:
        stored = Machine(ARRAYS).run(io.BytesIO(content))
        if not isinstance(stored, dict):
            raise ValueError(f"it holds {type(stored).__name__}, not a dictionary")
        return {str(key): value.value() if isinstance(value, StoredArray) else value for key, value in stored.items()}
    except Exception as error:  # a broken pickle can raise anything at all
        message = f"{name}: no pickle of a data set, or cut off ({len(content):,} bytes): {brief(str(error))}"
        raise UserError(message) from error
