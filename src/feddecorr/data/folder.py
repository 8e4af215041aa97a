"""Pictures of the user's own, in one folder per class."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from feddecorr.data import cache
from feddecorr.data.dataset import Dataset, Images, Own, split_off_test
from feddecorr.data.formats.pictures import SUFFIXES, decode, is_grey
from feddecorr.errors import UserError

TEST_NAMES = ("test", "val", "validation")

Labelled = list[tuple[Path, int]]


class Folder(Own):
    """Pictures of your own in one folder per class: data=folder:PATH.

    PATH holds the folders of the classes, or `train` and `test` (or `val`) that hold them. Without the latter,
    every fifth picture of a class, in the order of names, is a test image. Decoded pixels are kept in the cache
    until a file changes.
    """

    path: Path = Field(description="the folder")
    size: PositiveInt | None = Field(None, description="height and width to resize to; else all must be equal")

    def read(self) -> Dataset:
        """Return the pictures, grey if all of them are."""
        classes, train, test = self._find()
        name = f"folder-{_digest([str(self.path), str(self.size)])[:16]}"
        state = _digest([f"{path} {label} {_stamp(path)}" for path, label in train + test])
        if not cache.is_whole(name, source=state):
            grey = all(is_grey(path) for path, _ in train + test)
            dataset = Dataset.of(self._decode(train, grey=grey), self._decode(test, grey=grey), classes)
            cache.store(name, dataset, source=state)
        return cache.load(name)

    def _find(self) -> tuple[tuple[str, ...], Labelled, Labelled]:
        if not self.path.is_dir():
            raise UserError(f"data.path: there is no folder {self.path}")
        test = next((self.path / name for name in TEST_NAMES if (self.path / name).is_dir()), None)
        split = test is not None and (self.path / "train").is_dir()
        root = self.path / "train" if split else self.path
        classes = tuple(sorted(folder.name for folder in root.iterdir() if _pictures(folder)))
        if len(classes) < 2:
            raise UserError(f"{root}: expected a folder of pictures for each class, found {len(classes)} such folders")
        numbers = {name: number for number, name in enumerate(classes)}
        found = _label(root, numbers)
        if split and test is not None:
            return classes, found, _label(test, numbers)
        held_out = split_off_test(torch.tensor([label for _, label in found])).tolist()
        train = [pair for pair, out in zip(found, held_out, strict=True) if not out]
        return classes, train, [pair for pair, out in zip(found, held_out, strict=True) if out]

    def _decode(self, pictures: Labelled, *, grey: bool) -> Images:
        if not pictures:
            raise UserError(f"{self.path}: no test image; a class needs at least five pictures to give one")
        values: list[NDArray[np.uint8]] = []
        for path, _ in pictures:
            values.append(decode(str(path), path.read_bytes(), size=self.size, grey=grey))
            if values[-1].shape != values[0].shape:
                (height, width, _), (rows, columns, _) = values[-1].shape, values[0].shape
                raise UserError(
                    f"{path}: {width}×{height} pixels, where {pictures[0][0]} has {columns}×{rows}; "
                    f"data.size={min(rows, columns)} resizes all"
                )
        return Images(torch.from_numpy(np.stack(values)), torch.tensor([label for _, label in pictures]))


def _digest(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _stamp(path: Path) -> str:
    about = path.stat()
    return f"{about.st_size} {about.st_mtime_ns}"


def _pictures(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())


def _label(root: Path, numbers: Mapping[str, int]) -> Labelled:
    """Return the pictures of each class below the folder."""
    found = []
    for folder in sorted(root.iterdir()):
        pictures = _pictures(folder)
        if pictures and folder.name not in numbers:
            raise UserError(f"{folder}: no training folder has this class; there are: {', '.join(sorted(numbers))}")
        found += [(path, numbers[folder.name]) for path in pictures]
    return found
