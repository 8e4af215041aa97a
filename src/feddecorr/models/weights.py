"""Weights from safetensors files and from `torch.save`: no code in a file is run.

Files of `torch.save` are read without PyTorch's unpickler: tensors are built from checked numbers.
"""

from __future__ import annotations

import hashlib
import io
import mmap
import pickle
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from feddecorr.core.files import load_tensors
from feddecorr.core.limits import Allowance, brief, read_at_most
from feddecorr.core.states import State, copy_into, misfits, state_dict_names
from feddecorr.data.pickles import ForeignNameError, PickleReader, StandIn, count_elements
from feddecorr.errors import UserError

WRAPPERS = ("module.", "_orig_mod.", "model.")
"""What DataParallel, torch.compile and Lightning put before the names of all tensors."""

CHECKPOINTS = ("state_dict", "model_state_dict", "model")
"""Where a checkpoint keeps the weights."""


def load_weights(model: nn.Module, path: Path, *, sha256: str = "") -> None:
    """Load all weights of a network from a file, or say which do not fit. With a digest, refuse any other weights."""
    given = read_weights(path)
    if sha256 not in ("", found := weights_digest(given)):
        raise UserError(f"{path} has changed: its weights have sha256 {found}, no longer {sha256}")
    set_weights(model, given, str(path))


def set_weights(model: nn.Module, given: State, source: str) -> None:
    """Copy all weights into a network, or say which do not fit.

    Tied weights may come under any of their names, and all with the prefix of a wrapper. Buffers
    that a `state_dict` leaves out are optional.
    """
    names = state_dict_names(model)
    mine: State = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    wrapped = next((prefix for prefix in WRAPPERS if given and all(name.startswith(prefix) for name in given)), "")
    if not any(name.startswith(wrapped) for name in names):
        given = {name.removeprefix(wrapped): tensor for name, tensor in given.items()}
    state = {names.get(name, name): tensor for name, tensor in given.items()}
    expected = {name: tensor for name, tensor in mine.items() if name in state or name in names.values()}
    if problems := misfits(state, expected):
        raise UserError(f"{source} does not fit the model ({'; '.join(problems)})")
    copy_into((mine[name] for name in state), state.values())


def read_weights(path: Path) -> State:
    """Return the tensors of a safetensors file or of a file that `torch.save` wrote."""
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    if path.suffix == ".safetensors":
        return load_tensors(path)
    try:
        return _read_torch(path)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    except MemoryError:
        raise
    except ForeignNameError as error:
        raise UserError(
            f"{path} holds a whole object ({brief(error.name)}), which only its own code could read: save "
            "model.state_dict(), not the model"
        ) from error
    except Exception as error:  # a broken file can raise anything at all
        reason = brief(str(error) or type(error).__name__)
        raise UserError(f"{path} holds no weights that can be read: {reason}") from error


def weights_digest(state: State) -> str:
    """Return the sha256 of all tensors by name, the same whatever the file's format."""
    digest = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


@dataclass(frozen=True)
class Storage:
    """A tensor's numbers, which the file keeps under a key."""

    dtype: torch.dtype
    key: str


@dataclass(frozen=True)
class StoredTensor(StandIn):
    """A tensor as the file describes it."""

    storage: Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    def value(self, content: bytearray, allowance: Allowance) -> Tensor:
        """Return the tensor over its storage's content."""
        numbers = count_elements(self.size)
        allowance.take(numbers * self.dtype.itemsize)
        count_elements(self.stride)  # refuses strides that are not whole numbers
        steps = [(side - 1) * step for side, step in zip(self.size, self.stride, strict=True)]
        if numbers == 0:
            return torch.empty(self.size, dtype=self.dtype)
        if type(self.offset) is not int or self.offset < 0:
            raise ValueError("a tensor's offset is not a whole number from 0 on")
        if (self.offset + sum(steps) + 1) * self.dtype.itemsize > len(content):
            raise ValueError("a tensor reaches beyond its numbers")
        return torch.frombuffer(content, dtype=self.dtype).as_strided(self.size, self.stride, self.offset)


class StoredDict(dict[Any, Any], StandIn):
    """An ordered dictionary; attributes that the file sets on it are ignored."""


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, *rest: Any) -> StoredTensor:
    """Stand in for `_rebuild_tensor_v2` and `_v3`, whose last argument is the dtype."""
    if not isinstance(storage, Storage):
        raise ValueError("a tensor without numbers")
    dtype = rest[2] if len(rest) > 2 and isinstance(rest[2], torch.dtype) else storage.dtype
    return StoredTensor(storage, offset, size, stride, dtype)


def _dict(*pairs: Any) -> StoredDict:
    if pairs:
        raise ValueError("an ordered dictionary that is not created empty")
    return StoredDict()


def _inert(*_: object) -> StandIn:
    return StandIn()


MAGIC = 0x1950A86A20F9469CFC6C
"""The number with which PyTorch before 1.6 begins a file."""

DTYPES: dict[str, torch.dtype] = {
    "Double": torch.float64, "Float": torch.float32, "Half": torch.float16, "BFloat16": torch.bfloat16,
    "Long": torch.int64, "Int": torch.int32, "Short": torch.int16, "Char": torch.int8, "Byte": torch.uint8,
    "Bool": torch.bool, "ComplexDouble": torch.complex128, "ComplexFloat": torch.complex64, "Untyped": torch.uint8,
}  # fmt: skip
"""The dtype of a storage, by its class."""

NAMES: Mapping[str, Any] = {
    "torch._utils _rebuild_tensor": _tensor,
    "torch._utils _rebuild_tensor_v2": _tensor,
    "torch._utils _rebuild_tensor_v3": _tensor,
    "torch._utils _rebuild_parameter": lambda tensor, *_: tensor,
    "collections OrderedDict": _dict,
    "torch Size": lambda sides=(): sides,
    **{f"{module} {name}Storage": dtype for module in ("torch", "torch.storage") for name, dtype in DTYPES.items()},
    **{str(dtype).replace(".", " "): dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)},
    **dict.fromkeys(
        [
            "collections Counter", "torch device", "_codecs encode", "__builtin__ bytearray", "__builtin__ set",
            "__builtin__ complex", "builtins bytearray", "builtins set", "builtins complex",
        ],
        _inert,
    ),
}  # fmt: skip
"""The names that a file may use. Checkpoints have the last ones in addition to the weights; here they do nothing."""

Contents = Callable[[str], bytearray]
"""Reads the content of the storage with that key."""


def _read_torch(path: Path) -> State:
    """Read `torch.save(model.state_dict(), path)`, or a checkpoint that contains a `state_dict`."""
    allowance = Allowance(path.stat().st_size)
    with path.open("rb") as file:
        if (start := file.read(4)) != b"PK\x03\x04":
            if start[:1] != pickle.PROTO:
                raise UserError("no file of weights: save model.state_dict() with torch.save, or as safetensors")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return _build(*_read_legacy(content), allowance)
    with zipfile.ZipFile(path) as archive:
        return _build(*_read_zip(archive, allowance), allowance)


def _build(found: object, read: Contents, allowance: Allowance) -> State:
    if isinstance(found, dict):
        found = next((found[key] for key in CHECKPOINTS if isinstance(found.get(key), dict)), found)
    if not isinstance(found, dict) or not all(isinstance(tensor, StoredTensor) for tensor in found.values()):
        raise UserError("it holds no tensors by name: save model.state_dict()")
    if wrong := [name for name in found if not isinstance(name, str)]:
        raise UserError(f"a tensor's name is {brief(wrong[0])}, which is not a string")
    contents = cache(read)
    return {name: tensor.value(contents(tensor.storage.key), allowance) for name, tensor in found.items()}


def _find_storage(asked: Any) -> Storage:
    """Return the storage that a pickle's persistent id names."""
    what, dtype, key, _, _, *view = asked
    if what != "storage" or not isinstance(dtype, torch.dtype) or not isinstance(key, str) or view not in ([], [None]):
        raise ValueError("a persistent id that does not name a storage")
    return Storage(dtype, key)


def _read_zip(archive: zipfile.ZipFile, allowance: Allowance) -> tuple[object, Contents]:
    """Read the current format: a zip of a pickle and a file for each storage."""
    names = [name for name in archive.namelist() if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(names) != 1:
        raise UserError("a zip, but not one that torch.save wrote")
    root = names[0].removesuffix("data.pkl")

    def content(name: str) -> bytearray:
        member = archive.getinfo(root + name)
        allowance.take(member.file_size)
        with archive.open(member) as stream:
            return read_at_most(stream, member.file_size + 1)

    if f"{root}byteorder" in archive.namelist() and bytes(content("byteorder")) != b"little":
        raise UserError("its numbers are big-endian: save it again on a little-endian machine")
    found = PickleReader(NAMES, find=_find_storage, shared=True).run(io.BytesIO(content("data.pkl")))
    return found, lambda key: content(f"data/{key}")


def _read_legacy(content: mmap.mmap) -> tuple[object, Contents]:
    """Read the format before 1.6: pickles one after another, then the storages, each after its count of numbers."""
    seen: dict[str, Storage] = {}

    def find(asked: Any) -> Storage:
        storage = _find_storage(asked)
        return seen.setdefault(storage.key, storage)

    def read() -> Any:
        return PickleReader(NAMES, find=find, shared=True).run(content)

    if read() != MAGIC:
        raise UserError("it does not begin with PyTorch's magic number")
    _, _, found, keys = read(), read(), read(), read()
    places: dict[str, slice] = {}
    for key in keys:
        start = content.tell() + 8
        end = start + int.from_bytes(content.read(8), "little") * seen[key].dtype.itemsize
        places[key] = slice(start, end)
        content.seek(end)
    return found, lambda key: bytearray(content[places[key]])
