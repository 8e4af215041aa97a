"""The forms in which CIFAR is passed on: pickles of Python 2, binary records, and sheets in PNG."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from feddecorr.core.limits import brief
from feddecorr.core.parsing import parse_json
from feddecorr.data.dataset import Dataset, Images
from feddecorr.data.formats.layouts import Layout
from feddecorr.data.formats.pickles import load_pickle
from feddecorr.data.formats.pictures import decode
from feddecorr.errors import UserError

SIDE = 32
PLANE = SIDE * SIDE
ROW = 3 * PLANE
"""Bytes of an image: 1024 red, then green, then blue values."""

Rows = tuple[NDArray[np.uint8], NDArray[np.uint8]]
"""Images of shape (n, 3072) and their labels."""


@dataclass(frozen=True)
class Cifar:
    """What differs between CIFAR-10 and CIFAR-100: names of files, and how labels are written.

    With `superclasses` (a number for each class), a binary record begins with that of its label.
    """

    train: tuple[str, ...]
    test: str
    key: str
    classes: tuple[str, ...]
    superclasses: tuple[int, ...] = ()

    def python(self) -> Layout:
        """Return the layout of pickled dictionaries."""

        def read(name: str, files: Mapping[str, bytes]) -> Rows:
            batch = load_pickle(name, files[name])
            pixels = batch.get("data")
            if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != ROW:
                raise UserError(f"{name}: 'data' is no array of n × {ROW} bytes")
            return pixels, self._labels(name, batch.get(self.key), len(pixels))

        return self._layout("python", "", read)

    def binary(self) -> Layout:
        """Return the layout of records, each a label (after its superclass, if there are such) and an image."""
        start = 2 if self.superclasses else 1

        def read(name: str, files: Mapping[str, bytes]) -> Rows:
            size, length = start + ROW, len(files[name])
            if not length or length % size:
                raise UserError(f"{name}: {length:,} bytes, no whole number of images of {size:,} bytes: cut off?")
            records = np.frombuffer(files[name], dtype=np.uint8).reshape(-1, size)
            return records[:, start:], self._labels(name, records[:, start - 1].tolist(), len(records))

        return self._layout("binary", ".bin", read)

    def sheets(self, train_labels: str, test_labels: str) -> Layout:
        """Return the layout of PNG files with an image in each row, and of labels as lists in JSON."""
        train, test = [f"{name}.png" for name in self.train], f"{self.test}.png"

        def read(files: Mapping[str, bytes]) -> Dataset:
            halves = []
            for sheets, labels in ((train, train_labels), ([test], test_labels)):
                pixels = np.concatenate([read_sheet(name, files[name]) for name in sheets])
                halves.append((pixels, self._labels(labels, _read_json(labels, files[labels]), len(pixels))))
            return self._join(halves[:1], halves[1:])

        return Layout("PNG sheets", (*train, test, train_labels, test_labels), read)

    def official(self, dataset: Dataset) -> Iterator[tuple[str, bytes]]:
        """Yield the official binary files, whatever layout the images came in."""
        size = len(dataset.train) // len(self.train)
        pieces = zip(dataset.train.pixels.split(size), dataset.train.labels.split(size), strict=True)
        for name, (pixels, labels) in zip(self.train, pieces, strict=True):
            yield f"{name}.bin", self._records(pixels, labels)
        yield f"{self.test}.bin", self._records(dataset.test.pixels, dataset.test.labels)

    def _records(self, pixels: torch.Tensor, labels: torch.Tensor) -> bytes:
        columns = [labels] if not self.superclasses else [torch.tensor(self.superclasses)[labels], labels]
        planes = pixels.permute(0, 3, 1, 2).reshape(len(pixels), ROW)
        return torch.cat([torch.stack(columns, dim=1).byte(), planes], dim=1).numpy().tobytes()

    def _layout(self, form: str, suffix: str, read: Callable[[str, Mapping[str, bytes]], Rows]) -> Layout:
        train, test = tuple(name + suffix for name in self.train), self.test + suffix

        def read_all(files: Mapping[str, bytes]) -> Dataset:
            return self._join([read(name, files) for name in train], [read(test, files)])

        return Layout(form, (*train, test), read_all)

    def _labels(self, name: str, values: object, count: int) -> NDArray[np.uint8]:
        if not isinstance(values, list) or len(values) != count:
            found = f"{len(values)}" if isinstance(values, list) else type(values).__name__
            raise UserError(f"{name}: expected a list of {count} labels, found {found}")
        for value in values:
            if type(value) is not int or not 0 <= value < len(self.classes):
                raise UserError(f"{name}: a label is {brief(value)}, expected 0 to {len(self.classes) - 1}")
        return np.array(values, dtype=np.uint8)

    def _join(self, train: list[Rows], test: list[Rows]) -> Dataset:
        def join(pieces: list[Rows]) -> Images:
            planes = torch.from_numpy(np.concatenate([pixels for pixels, _ in pieces]))
            labels = torch.from_numpy(np.concatenate([labels for _, labels in pieces]))
            return Images(planes.view(-1, 3, SIDE, SIDE).permute(0, 2, 3, 1).contiguous(), labels.long())

        return Dataset.of(join(train), join(test), self.classes)


def read_sheet(name: str, content: bytes) -> NDArray[np.uint8]:
    """Return the images of a picture in which each row of 1024 pixels is one, as shape (n, 3072)."""
    pixels = decode(name, content)
    if pixels.shape[1] != PLANE:
        raise UserError(f"{name}: rows of {pixels.shape[1]} pixels, expected {PLANE} (an image in each row)")
    return pixels.transpose(0, 2, 1).reshape(-1, ROW)


def _read_json(name: str, content: bytes) -> object:
    try:
        return parse_json(content)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{name}: no JSON, or cut off ({len(content):,} bytes): {brief(str(error))}") from error
