"""Your own pictures, in one folder per class."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from pydantic import Field, PositiveInt

from feddecorr.core.files import reading
from feddecorr.core.limits import Allowance, check_classes, read_plain
from feddecorr.data import cache
from feddecorr.data.dataset import Dataset, Images, UserData, split_off_test
from feddecorr.data.pictures import SUFFIXES, allowance_of, decode_all, is_grey
from feddecorr.errors import UserError

TEST_NAMES = ("test", "val", "validation")

Labelled = list[tuple[Path, int]]


class Folder(UserData):
    """Your own pictures in one folder per class: data=folder:PATH.

    PATH contains the folders of the classes, or `train` and `test` (or `val`) that contain them. Without those,
    every fifth picture of a class, in the order of names, is a test image. Hidden files and folders (`.name`) are left
    out. Decoded pixels are kept in the cache until a file changes.
    """

    path: Path = Field(description="the folder")
    size: PositiveInt | None = Field(
        None, description="height and width to resize to; by default all images must have the same size"
    )

    def read(self) -> Dataset:
        """Return the pictures, grey if all of them are."""
        classes, train, test = self._find()
        name = f"folder-{digest_of([str(self.path), str(self.size)])[:16]}"
        state = digest_of([f"{path} {label} {stamp_of(path)}" for path, label in train + test])
        if not cache.is_current(name, source=state):
            grey = all(is_grey(str(path), read_plain(path)) for path, _ in train + test)
            allowance = allowance_of(sum(path.stat().st_size for path, _ in train + test))
            found = [self._decode(part, allowance, grey=grey) for part in (train, test)]
            dataset = Dataset.of(found[0], found[1], classes)
            cache.store(name, dataset, source=state, private=True)
        return cache.load(name)

    def _find(self) -> tuple[tuple[str, ...], Labelled, Labelled]:
        if not self.path.is_dir():
            raise UserError(f"data.path: there is no folder {self.path}")
        test = next((self.path / name for name in TEST_NAMES if (self.path / name).is_dir()), None)
        split = test is not None and (self.path / "train").is_dir()
        root = self.path / "train" if split else self.path
        classes = tuple(sorted(folder.name for folder in _shown(root) if _pictures(folder)))
        if not classes:
            raise UserError(f"{root}: expected a folder of pictures for each class, found none")
        with reading(root):
            check_classes(len(classes))
        numbers = {name: number for number, name in enumerate(classes)}
        found = _label(root, numbers)
        if split and test is not None:
            return classes, found, _label(test, numbers)
        held_out = split_off_test(torch.tensor([label for _, label in found])).tolist()
        train = [pair for pair, out in zip(found, held_out, strict=True) if not out]
        return classes, train, [pair for pair, out in zip(found, held_out, strict=True) if out]

    def _decode(self, pictures: Labelled, allowance: Allowance, *, grey: bool) -> Images:
        if not pictures:
            raise UserError(f"{self.path}: no test image; a class needs at least five pictures to give one")
        contents = ((str(path), read_plain(path)) for path, _ in pictures)
        pixels = decode_all(contents, len(pictures), allowance=allowance, size=self.size, grey=grey)
        return Images(pixels, torch.tensor([label for _, label in pictures]))


def digest_of(lines: Sequence[str]) -> str:
    """Return a digest of the lines."""
    return hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()  # as names are on the disk


def stamp_of(path: Path) -> str:
    """Return size and time of the last change of a file."""
    about = path.stat()
    return f"{about.st_size} {about.st_mtime_ns}"


def _pictures(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in SUFFIXES
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


def _shown(root: Path) -> list[Path]:
    """Return what is in a folder in the order of names, but for what is hidden, such as `.ipynb_checkpoints`."""
    return sorted(path for path in root.iterdir() if not path.name.startswith("."))


def _label(root: Path, numbers: Mapping[str, int]) -> Labelled:
    """Return the pictures of each class below the folder."""
    found = []
    for folder in _shown(root):
        pictures = _pictures(folder)
        if pictures and folder.name not in numbers:
            raise UserError(f"{folder}: no training folder has this class; there are: {', '.join(sorted(numbers))}")
        found += [(path, numbers[folder.name]) for path in pictures]
    return found
