"""Features and labels from files of any framework: npy, npz, safetensors, csv, parquet."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from feddecorr.collapse.diagnosis import Diagnosis
from feddecorr.collapse.statistics import CHUNK, Batch
from feddecorr.core.files import load_tensors, reading
from feddecorr.core.limits import MEMBER, brief, check_classes, check_width
from feddecorr.data.npz import read_npy_header, read_npz
from feddecorr.data.tables import LABELS, AnyArray, labels_of, read_table
from feddecorr.errors import UserError
from feddecorr.loss.decorrelation import as_batch


@dataclass(frozen=True)
class Features:
    """The content of a file: an array, memory-mapped where its format allows that, and labels if there are any."""

    path: Path
    array: AnyArray
    labels: Tensor | None

    @property
    def step(self) -> int:
        """Samples that are read at once: the larger, the fewer."""
        return min(CHUNK, max(1, MEMBER // sample_size(self.array)))

    def batches(self, step: int) -> Iterator[Batch]:
        """Yield the features in batches of `step` samples."""
        kind = _torch_kind(self.array.dtype)
        for start in range(0, len(self.array), step):
            with np.errstate(over="ignore"):  # what is too large is infinite then, and refused
                part = np.array(self.array[start : start + step]).astype(kind, copy=False)  # torch wants to own memory
            if not (fine := np.isfinite(part.reshape(len(part), -1)).all(axis=1)).all():
                raise UserError(f"{self.path}: sample {start + int(np.argmin(fine)) + 1} holds NaN or infinity")
            labels = None if self.labels is None else self.labels[start : start + step]
            yield Batch(as_batch(torch.from_numpy(part)), labels)


def _torch_kind(kind: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which PyTorch takes numbers of any type and byte order."""
    return kind.newbyteorder("=") if kind.kind == "f" and kind.itemsize <= 8 else np.dtype(np.float64)


def sample_size(array: AnyArray) -> int:
    """Return the bytes of one sample, at least one."""
    return max(1, math.prod(array.shape[1:]) * array.itemsize)


def diagnose_features(files: Sequence[tuple[Path, Path | None]]) -> Iterator[Diagnosis]:
    """Diagnose files of features, each with its labels or none.

    All are compared with the first; sample by sample, if the numbers of samples agree.
    """
    first: tuple[Features, Diagnosis] | None = None
    alike = len({path.name for path, _ in files}) < len(files)
    for path, labels in files:
        features = read_features(path, labels)
        step = features.step if first is None else min(features.step, first[0].step)
        batches = features.batches(step)
        if first is not None and len(first[0].array) == len(features.array):
            pairs = zip(batches, first[0].batches(step), strict=True)
            batches = (mine._replace(reference=theirs.z) for mine, theirs in pairs)
        name = str(path) if alike else path.name
        with reading(path):
            found = Diagnosis.of_features(name, batches, reference=None if first is None else first[1])
        first = first or (features, found)
        yield found


def read_features(path: Path, labels: Path | None = None) -> Features:
    """Open a file of features, with labels from a separate file or from the same one.

    An npz or safetensors file holds one array, or one named `features` and optionally one named `labels`.
    """
    features, included = _features(path)
    found = included if labels is None else _pick(_read(labels), "labels", labels)
    numbers = None if found is None else _class_numbers(found, labels or path)
    if features.ndim < 2 or 0 in features.shape:
        raise UserError(f"{path}: features have the shape (samples, features), not {features.shape}")
    if features.dtype.kind not in "fiub":
        raise UserError(f"{path}: features are numbers, not {features.dtype}")
    with reading(path):
        check_width(features.shape[1])
    if (size := sample_size(features)) > MEMBER:
        raise UserError(f"{path}: a sample of {size:,} bytes is too large: at most {MEMBER:,}")
    if numbers is not None and len(numbers) != len(features):
        raise UserError(f"{path} holds {len(features)} samples, but there are {len(numbers)} labels")
    return Features(path, features, numbers)


def _features(path: Path) -> tuple[AnyArray, AnyArray | None]:
    arrays = _read(path)
    if "labels" in arrays and len(arrays) == 2:
        rest = {name: array for name, array in arrays.items() if name != "labels"}
        return _pick(rest, "features", path), arrays["labels"]
    return _pick(arrays, "features", path), arrays.get("labels")


def _pick(arrays: Mapping[str, AnyArray], name: str, path: Path) -> AnyArray:
    if name in arrays:
        return arrays[name]
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    raise UserError(f"{path} holds several arrays, none named '{name}': {brief(', '.join(arrays)) or 'none at all'}")


def _class_numbers(labels: AnyArray, path: Path) -> Tensor:
    flat = labels.reshape(-1) if labels.ndim and labels.size == len(labels) else labels
    if flat.ndim != 1:
        raise UserError(f"{path}: labels are one class for each sample, not of shape {labels.shape}")
    if flat.dtype.kind not in "iubfUS":
        raise UserError(f"{path}: labels are whole numbers or names of classes, not {flat.dtype}")
    if flat.dtype.kind in "fu" and not (whole := (flat == np.round(flat)) & (abs(flat) < np.float64(2.0**63))).all():
        row = int(np.argmin(whole))
        said = f"that of row {row + 1} is {flat[row]}"
        raise UserError(f"{path}: labels are whole numbers or names of classes, but {said}")
    names, numbers = np.unique(flat, return_inverse=True)
    with reading(path):
        check_classes(len(names))
    return torch.from_numpy((numbers if flat.dtype.kind in "US" else flat).astype(np.int64))


def _read(path: Path) -> Mapping[str, AnyArray]:
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    if path.suffix not in READERS:
        raise UserError(f"{path}: files of features end in {', '.join(READERS)}")
    try:
        return READERS[path.suffix](path)
    except (UserError, MemoryError):
        raise
    except Exception as error:  # a broken file can raise anything at all
        raise UserError(f"{path} cannot be read: {brief(str(error))}") from error


def _read_npy(path: Path) -> Mapping[str, AnyArray]:
    with path.open("rb") as file:
        read_npy_header(file)
    return {"features": np.lib.format.open_memmap(path, mode="r")}


def _read_safetensors(path: Path) -> Mapping[str, AnyArray]:
    tensors = load_tensors(path)
    return {name: _to_numpy(tensor) for name, tensor in tensors.items()}


def _to_numpy(tensor: Tensor) -> AnyArray:
    return (tensor.float() if tensor.is_floating_point() and tensor.itemsize < 4 else tensor).numpy()


def _read_table(path: Path) -> Mapping[str, AnyArray]:
    """Return `features` and, from a column such as `label`, `labels`."""
    table = read_table(path, partial(_label_column, path), headed=False)
    arrays: dict[str, AnyArray] = {"features": table.numbers} if table.numbers.size else {}
    if "labels" in table.chosen:
        labels = labels_of(path, table.chosen["labels"])
        arrays["labels"] = labels if labels.dtype.kind in "iubf" else labels.astype(str)
    return arrays


def _label_column(path: Path, names: Sequence[str]) -> dict[str, int]:
    """Return which column holds the labels, if any; refuse headings that could mean two things."""
    small = [name.strip().lower() for name in names]
    found = [place for place, name in enumerate(small) if name in LABELS]
    if len(found) > 1:
        named = brief(", ".join(names[place] for place in found))
        raise UserError(f"{path}: several columns could be the labels: {named}")
    if path.suffix == ".csv" and {"x", "y"} <= set(small):
        raise UserError(f"{path}: the column 'y' could be the labels or belong to 'x': give it another name")
    return {"labels": found[0]} if found else {}


READERS: dict[str, Callable[[Path], Mapping[str, AnyArray]]] = {
    ".npy": _read_npy,
    ".npz": read_npz,
    ".safetensors": _read_safetensors,
    ".csv": _read_table,
    ".parquet": _read_table,
}
