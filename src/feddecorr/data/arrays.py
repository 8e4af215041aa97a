"""Arrays as people hold them, made into images or a table of features; what could mean two things is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from feddecorr.core.limits import check_classes, check_labels, check_width
from feddecorr.data.dataset import Dataset, Images, split_off_test
from feddecorr.errors import UserError

Arrays = Mapping[str, NDArray[Any]]

CHANNELS = (1, 3, 4)
"""How many channels a picture has; so an axis of that length is the channels where the others are sides."""

CONVERT = "x = ((x - x.min()) / (x.max() - x.min()) * 255).round().astype('uint8')"


def from_arrays(
    arrays: Arrays, names: Sequence[str], *, classes: Sequence[str] | None = None, tables: bool = False
) -> Dataset:
    """Return the data set of examples and labels under these names: of training and, unless they are empty, of test.

    Without test examples, every fifth of a class is one. Examples of one axis are features, if `tables` are expected.
    """
    given = [names[:2], names[2:]] if names[2] else [names[:2]]
    flat = tables and all(arrays[x].ndim == 2 for x, _ in given)
    examples = [arrays[x] for x, _ in given]
    pixels = (
        [_features(each, x) for each, (x, _) in zip(examples, given, strict=True)] if flat else _pixels(arrays, given)
    )
    labels, words = _labels(arrays, given)
    parts = [Images(x, y) for x, y in zip(pixels, labels, strict=True)]
    if len(parts) == 1:
        out = split_off_test(parts[0].labels)
        if not bool(out.any()):
            raise UserError("a class needs at least five images to give a test image")
        parts = [Images(parts[0].pixels[chosen], parts[0].labels[chosen]) for chosen in (~out, out)]
    train, test = parts
    if test.pixels.shape[1:] != train.pixels.shape[1:]:
        shapes = f"{tuple(train.pixels.shape[1:])} and {tuple(test.pixels.shape[1:])}"
        raise UserError(f"training and test images have different shapes, {shapes}")
    count = 1 + int(max(train.labels.max(), test.labels.max()))
    named = classes or words
    if named is not None and len(named) < count:
        raise UserError(f"{len(named)} names of classes, but labels up to {count - 1}")
    dataset = Dataset.of(train, test, tuple(named or map(str, range(count))))
    empty = sorted(set(range(count)) - set(train.labels.tolist())) if named is None else []
    if empty:
        dataset = Dataset(**{**vars(dataset), "note": _gap(empty, count)})
    return dataset


def _gap(empty: Sequence[int], count: int) -> str:
    hint = "; if labels begin at 1, subtract 1" if empty == [0] else ""
    return f"no training example has the label {', '.join(map(str, empty[:10]))}, and there are {count} classes{hint}"


def _pixels(arrays: Arrays, given: Sequence[Sequence[str]]) -> list[Tensor]:
    """Return images as whole numbers, channels last; floats of all parts are converted by one rule."""
    parts = {x: arrays[x] for x, _ in given}
    if any(part.dtype.kind == "f" for part in parts.values()):
        for name, part in parts.items():
            if part.dtype.kind == "f" and not (finite := np.isfinite(part)).all():
                raise UserError(
                    f"{name}: {(~finite).sum()} values are missing or infinite, the first in image "
                    f"{np.argwhere(~finite)[0][0] + 1}"
                )
        low, high = min(float(part.min()) for part in parts.values()), max(float(part.max()) for part in parts.values())
        whole = all((part == part.round()).all() for part in parts.values())
        if not (low >= 0 and (high <= 1 or (high <= 255 and whole))):
            name, first = next(iter(parts.items()))
            raise UserError(
                f"{name} is {first.dtype} from {low:g} to {high:g}; expected uint8, or floats from 0 to 1, for images "
                f"are standardized here: {CONVERT}"
            )
        parts = {x: (part * (255 if high <= 1 else 1)).round().astype(np.uint8) for x, part in parts.items()}
    return [torch.from_numpy(np.ascontiguousarray(_channels_last(part, x))) for x, part in parts.items()]


def _channels_last(x: NDArray[Any], name: str) -> NDArray[Any]:
    """Return images of (n, h, w, c), of whatever order they are in; one that could be either is refused."""
    if x.dtype.kind in "iu" and x.size and int(x.min()) >= 0 and int(x.max()) <= 255:
        x = x.astype(np.uint8)
    if x.dtype != np.uint8 or x.ndim not in (3, 4):
        shapes = "(n, height, width), (n, height, width, channels) or (n, channels, height, width)"
        raise UserError(f"{name} is {x.dtype} of shape {x.shape}; expected uint8 of {shapes}")
    if x.ndim == 3:
        return x[..., np.newaxis]
    _, first, second, third = x.shape
    leading, trailing = first in CHANNELS, third in CHANNELS
    if leading and trailing and (first == second) != (second == third):  # pictures are mostly square
        leading, trailing = second == third, first == second
    if leading and trailing:
        raise UserError(
            f"{name} of shape {x.shape}: the channels could come first or last; give it larger or square sides"
        )
    return np.moveaxis(x, 1, -1) if leading else x


def _features(x: NDArray[Any], name: str) -> Tensor:
    if x.dtype.kind not in "biuf":
        raise UserError(f"{name} holds {x.dtype}, not numbers")
    check_width(x.shape[1])
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(x, np.float32)
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise UserError(f"{name}: row {row + 1}, column {column + 1} is missing, infinite or too large for float32")
    return torch.from_numpy(values.copy()[:, np.newaxis, np.newaxis, :])


def _convert_labels(name: str, labels: NDArray[Any]) -> str:
    """Return the line that makes labels of whole numbers in floats, or of one column for each class."""
    if labels.ndim == 1 and labels.dtype.kind == "f" and np.array_equal(labels, labels.round()):
        return f": {name} = {name}.astype(int)"
    if labels.ndim == 2 and np.array_equal(labels, labels == 1) and (labels.sum(1) == 1).all():
        return f": {name} = {name}.argmax(1)"
    return ""


def _labels(arrays: Arrays, given: Sequence[Sequence[str]]) -> tuple[list[Tensor], list[str] | None]:
    """Return the labels as numbers of classes and, where they are words, the words in order."""
    found = []
    for x, y in given:
        labels = arrays[y][:, 0] if arrays[y].ndim == 2 and arrays[y].shape[1] == 1 else arrays[y]
        if labels.dtype.kind not in "biuU" or labels.shape != arrays[x].shape[:1] or not len(labels):
            raise UserError(
                f"{y} is {labels.dtype} of shape {labels.shape}; expected {len(arrays[x])} whole numbers from 0 on"
                f"{_convert_labels(y, labels)}"
            )
        found.append((y, labels))
    if any(labels.dtype.kind == "U" for _, labels in found):
        words = sorted({str(label) for _, labels in found for label in labels})
        check_classes(len(words))
        numbers = {word: number for number, word in enumerate(words)}
        return [torch.tensor([numbers[str(label)] for label in labels]) for _, labels in found], words
    for y, labels in found:
        try:
            check_labels(labels)
        except UserError as error:
            raise UserError(f"{y}, {error}") from error
    return [torch.from_numpy(labels.astype(np.int64)) for _, labels in found], None
