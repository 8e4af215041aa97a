"""Files that `torch.save` wrote, read without PyTorch's unpickler: tensors are made from checked numbers."""

from __future__ import annotations

import io
import mmap
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from feddecorr.core.limits import Allowance, brief, read_at_most
from feddecorr.core.states import State
from feddecorr.data.formats.pickles import Machine, StandIn, product
from feddecorr.errors import UserError

MAGIC = 0x1950A86A20F9469CFC6C
"""The number that files begin with that PyTorch wrote before 1.6."""

KINDS: dict[str, torch.dtype] = {
    "Double": torch.float64, "Float": torch.float32, "Half": torch.float16, "BFloat16": torch.bfloat16,
    "Long": torch.int64, "Int": torch.int32, "Short": torch.int16, "Char": torch.int8, "Byte": torch.uint8,
    "Bool": torch.bool, "ComplexDouble": torch.complex128, "ComplexFloat": torch.complex64, "Untyped": torch.uint8,
}  # fmt: skip
"""What the numbers of a storage are, by its class."""


@dataclass(frozen=True)
class Storage:
    """Numbers that lie in the file under a key."""

    kind: torch.dtype
    key: str


@dataclass(frozen=True)
class StoredTensor(StandIn):
    """What a file says of a tensor."""

    storage: Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    kind: torch.dtype

    def value(self, content: bytearray, allowance: Allowance) -> Tensor:
        """Return the tensor over its storage's content."""
        numbers = product(self.size)
        allowance.take(numbers * self.kind.itemsize)
        product(self.stride)  # whole numbers, of which only the largest place matters
        places = [(side - 1) * step for side, step in zip(self.size, self.stride, strict=True)]
        if numbers == 0:
            return torch.empty(self.size, dtype=self.kind)
        if type(self.offset) is not int or self.offset < 0:
            raise ValueError("a tensor begins nowhere")
        if (self.offset + sum(places) + 1) * self.kind.itemsize > len(content):
            raise ValueError("a tensor reaches beyond its numbers")
        return torch.frombuffer(content, dtype=self.kind).as_strided(self.size, self.stride, self.offset)


class Table(dict[Any, Any], StandIn):
    """A dictionary that may have notes; they are left out."""


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, *rest: Any) -> StoredTensor:
    """Stand in for `_rebuild_tensor_v2` and `_v3`, which says the type last."""
    if not isinstance(storage, Storage):
        raise ValueError("a tensor without numbers")
    kind = rest[2] if len(rest) > 2 and isinstance(rest[2], torch.dtype) else storage.kind
    return StoredTensor(storage, offset, size, stride, kind)


def _table(*pairs: Any) -> Table:
    if pairs:
        raise ValueError("a table that is made at once")
    return Table()


def _inert(*_: object) -> StandIn:
    return StandIn()


NAMES: Mapping[str, Any] = {
    "torch._utils _rebuild_tensor": _tensor,
    "torch._utils _rebuild_tensor_v2": _tensor,
    "torch._utils _rebuild_tensor_v3": _tensor,
    "torch._utils _rebuild_parameter": lambda tensor, *_: tensor,
    "collections OrderedDict": _table,
    "torch Size": lambda sides=(): sides,
    **{f"{module} {name}Storage": kind for module in ("torch", "torch.storage") for name, kind in KINDS.items()},
    **{str(kind).replace(".", " "): kind for kind in vars(torch).values() if isinstance(kind, torch.dtype)},
    **dict.fromkeys(
        [
            "collections Counter", "torch device", "_codecs encode", "__builtin__ bytearray", "__builtin__ set",
            "__builtin__ complex", "builtins bytearray", "builtins set", "builtins complex",
        ],
        _inert,
    ),
}  # fmt: skip
"""What a file may name; the last are found in checkpoints beside the weights, and do nothing here."""

Contents = Callable[[str], bytearray]
"""Reads the content of the storage with that key."""


def read_torch(path: Path) -> State:
    """Return the tensors by name of what `torch.save(model.state_dict(), path)` wrote, or a checkpoint with it."""
    allowance = Allowance(path.stat().st_size)
    with path.open("rb") as file:
        packed = file.read(4) == b"PK\x03\x04"
        if not packed:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return _build(*_read_old(content), allowance)
    with zipfile.ZipFile(path) as archive:
        return _build(*_read_zip(archive, allowance), allowance)


def _build(found: object, read: Contents, allowance: Allowance) -> State:
    if isinstance(found, dict) and isinstance(found.get("state_dict"), dict):
        found = found["state_dict"]
    if not isinstance(found, dict) or not all(isinstance(tensor, StoredTensor) for tensor in found.values()):
        raise UserError("it holds no table of tensors by name: save model.state_dict()")
    if wrong := [name for name in found if not isinstance(name, str)]:
        raise UserError(f"a tensor is named {brief(wrong[0])}, which is no word")
    contents = cache(read)
    return {name: tensor.value(contents(tensor.storage.key), allowance) for name, tensor in found.items()}


def _find(asked: Any) -> Storage:
    """Return the storage that a pickle asks for."""
    what, kind, key, _, _, *view = asked
    if what != "storage" or not isinstance(kind, torch.dtype) or not isinstance(key, str) or view not in ([], [None]):
        raise ValueError("it asks for what lies outside of it, and is no storage")
    return Storage(kind, key)


def _read_zip(archive: zipfile.ZipFile, allowance: Allowance) -> tuple[object, Contents]:
    """Read the form of today: a zip of a pickle and a file for each storage."""
    names = [name for name in archive.namelist() if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(names) != 1:
        raise UserError("a zip, but of no weights that torch.save wrote")
    root = names[0].removesuffix("data.pkl")

    def content(name: str) -> bytearray:
        member = archive.getinfo(root + name)
        allowance.take(member.file_size)
        with archive.open(member) as stream:
            return read_at_most(stream, member.file_size + 1)

    if f"{root}byteorder" in archive.namelist() and bytes(content("byteorder")) != b"little":
        raise UserError("its numbers are in the byte order of another kind of machine")
    found = Machine(NAMES, find=_find, shared=True).run(io.BytesIO(content("data.pkl")))
    return found, lambda key: content(f"data/{key}")


def _read_old(content: mmap.mmap) -> tuple[object, Contents]:
    """Read the form before 1.6: pickles one after another, then the storages, each after its count of numbers."""
    seen: dict[str, Storage] = {}

    def find(asked: Any) -> Storage:
        storage = _find(asked)
        return seen.setdefault(storage.key, storage)

    def read() -> Any:
        return Machine(NAMES, find=find, shared=True).run(content)

    if read() != MAGIC:
        raise UserError("it begins with no number of PyTorch's")
    _, _, found, keys = read(), read(), read(), read()
    places: dict[str, slice] = {}
    for key in keys:
        start = content.tell() + 8
        end = start + int.from_bytes(content.read(8), "little") * seen[key].kind.itemsize
        places[key] = slice(start, end)
        content.seek(end)
    return found, lambda key: bytearray(content[places[key]])
