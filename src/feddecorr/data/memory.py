"""Your own data in memory: arrays and tensors, and data sets of PyTorch and of Hugging Face."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor
from torch.utils.data import Dataset as TorchDataset

from feddecorr.data.arrays import from_arrays
from feddecorr.data.dataset import Data, Dataset
from feddecorr.errors import UserError

NAMES = ("x", "y", "x_test", "y_test")
LABELS = ("label", "labels", "fine_label", "target", "y")
"""Columns of labels where none is declared as such."""

WANTED = "(x, y), (x, y, x_test, y_test), a Dataset of PyTorch or of Hugging Face, or (training, test) of such"


class Memory(Data):
    """Your own data in memory, in Python alone: Experiment(data=(x, y)).

    Also (x, y, x_test, y_test), a map-style Dataset of PyTorch, a Dataset or DatasetDict of Hugging Face, or a pair of
    training and test data. Images are uint8, or floats from 0 to 1, which are multiplied by 255 and rounded; channels
    come first or last. Two axes are a table of features. A run records a digest of the content, not the data:
    to continue it, give them again.
    """

    arrays: Any = Field(None, exclude=True, repr=False, description="the data; data=(x, y) is short for this option")
    sha256: str = Field("", description="digest of all examples and labels; computed from the data")

    @model_validator(mode="before")
    @classmethod
    def _take_up(cls, options: Any) -> Any:
        if not isinstance(options, Mapping) or options.get("arrays") is None:
            return options
        held = options["arrays"]
        dataset = held if isinstance(held, Dataset) else gather(held)
        if options.get("sha256") not in (None, "", dataset.sha256):
            raise UserError(f"these are other data: their sha256 is {dataset.sha256}, not {options['sha256']}")
        return {**options, "arrays": dataset, "sha256": dataset.sha256}

    @property
    def images(self) -> bool:
        """Whether they are images, as far as is known here."""
        return self.arrays is None or not self.arrays.train.pixels.is_floating_point()

    def read(self) -> Dataset:
        """Return the data, if this value was made with them."""
        if not isinstance(self.arrays, Dataset):
            raise UserError(
                "data=memory: the data are in the memory of a Python program, Experiment(data=(x, y)); to continue its "
                "run, give that experiment again: resume(out, experiment, options)"
            )
        return self.arrays

    def __getstate__(self) -> dict[Any, Any]:
        """Leave the data out of what other processes receive: they are sent what they need of them."""
        state = super().__getstate__()
        return {**state, "__dict__": {**state["__dict__"], "arrays": None}}


def in_memory(value: object) -> object:
    """Return the options of `Memory` for what is no setting, and any other value as it is."""
    setting = isinstance(value, Data | Mapping | str | int | float | None) and not _is_hugging_face(value)
    return value if setting else {"name": "memory", "arrays": value}


def gather(source: object) -> Dataset:
    """Return the data set that is held in one of the ways in which people hold them."""
    if _is_hugging_face(source) and isinstance(source, Mapping):
        test = next((name for name in ("test", "validation") if name in source), None)
        if "train" not in source:
            raise UserError(f"no split 'train' in this DatasetDict; there are: {', '.join(source)}")
        source = (source["train"],) if test is None else (source["train"], source[test])
    parts = source if isinstance(source, tuple) else (source,)
    if 1 <= len(parts) <= 2 and all(isinstance(part, TorchDataset) or _is_hugging_face(part) for part in parts):
        read = [_from_hugging_face(part) if _is_hugging_face(part) else _from_torch(part) for part in parts]
        classes = read[0][2]
        held = [array for x, y, _ in read for array in (x, y)]
    elif isinstance(source, tuple) and len(source) in (2, 4):
        held, classes = [_array(part, name) for part, name in zip(source, NAMES, strict=False)], None
    else:
        raise UserError(f"data in memory are {WANTED}; not {_shape_of(source)}")
    names = (*NAMES[: len(held)], *[""] * (4 - len(held)))
    return from_arrays(dict(zip(NAMES, held, strict=False)), names, classes=classes, tables=True)


Read = tuple[NDArray[Any], NDArray[Any], list[str] | None]
"""Examples, labels and the names of the classes, if they are known."""


def _from_torch(source: Any) -> Read:
    try:
        rows = [source[place] for place in range(len(source))]
    except (TypeError, NotImplementedError) as error:
        raise UserError(f"{type(source).__name__} has no length or no order: give a map-style Dataset") from error
    if wrong := [place for place, row in enumerate(rows) if not isinstance(row, tuple | list) or len(row) < 2]:
        raise UserError(f"{type(source).__name__}[{wrong[0]}] is no pair of an example and its label")
    named = getattr(source, "classes", None)
    known = list(map(str, named)) if isinstance(named, list | tuple) else None
    return _stack((row[0] for row in rows), "x"), _stack((row[1] for row in rows), "y"), known


def _from_hugging_face(source: Any) -> Read:
    kinds = {name: type(feature).__name__ for name, feature in source.features.items()}
    label = next((name for name, kind in kinds.items() if kind == "ClassLabel"), None)
    label = label or next((name for name in LABELS if name in kinds), None)
    if label is None:
        raise UserError(f"no column of labels ({', '.join(LABELS)}) among {', '.join(kinds)}")
    others = [name for name in kinds if name != label]
    pictures = [name for name in others if kinds[name] != "Value"]
    if len(pictures) > 1 or not others:
        raise UserError(
            f"{len(pictures)} columns could be the examples: keep one with select_columns: {', '.join(others)}"
        )
    plain = source.with_format(None)
    columns = [_stack(plain[name], name) for name in pictures or others]
    x = columns[0] if pictures else np.stack(columns, axis=1)
    names = getattr(source.features[label], "names", None)
    return x, _stack(plain[label], label), None if names is None else list(names)


def _stack(values: Iterable[Any], name: str) -> NDArray[Any]:
    """Return one array of values that have the same shape."""
    found = [_array(value, name) for value in values]
    for place, each in enumerate(found):
        if each.shape != found[0].shape:
            raise UserError(f"{name}: example {place} has shape {each.shape}, the first {found[0].shape}: resize them")
    return np.stack(found) if found else np.zeros(0)


def _array(value: Any, name: str) -> NDArray[Any]:
    if isinstance(value, Tensor):
        plain = value.detach().cpu()
        return (plain.float() if plain.dtype in (torch.bfloat16, torch.float16) else plain).numpy()
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise UserError(f"{name} is no array of numbers: {error}") from error
    if array.dtype == object and all(isinstance(each, str) for each in array.flat):
        return array.astype(str)
    return array


def _is_hugging_face(value: object) -> bool:
    return type(value).__module__.split(".")[0] == "datasets"


def _shape_of(value: object) -> str:
    return f"a tuple of {len(value)}" if isinstance(value, tuple) else f"a {type(value).__name__}"
