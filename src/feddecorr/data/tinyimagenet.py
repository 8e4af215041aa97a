"""TinyImageNet: a folder of JPEG files, with the labels of the validation images in a text file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import ClassVar

import numpy as np
import torch

from feddecorr.core.limits import brief, check_classes
from feddecorr.data.dataset import Dataset, Images
from feddecorr.data.download import Home, Remote
from feddecorr.data.pictures import decode
from feddecorr.data.public import PublicData, Recipe
from feddecorr.errors import UserError

SIDE = 64
TEXTS = ("wnids.txt", "words.txt", "val_annotations.txt")
TRAIN = re.compile(r"(?:^|/)train/(?P<wnid>n\d+)/images/n\d+_(?P<number>\d{1,18})\.JPEG$")
VALIDATION = re.compile(r"(?:^|/)val/images/(?P<name>[^/]+\.JPEG)$")


def wanted(path: str) -> bool:
    """Say whether a file is needed: the unlabelled test images and the boxes are not."""
    return PurePosixPath(path).name in TEXTS or bool(TRAIN.search(path) or VALIDATION.search(path))


def parse(files: Mapping[str, bytes]) -> Dataset:
    """Read the labelled images; the 50 validation images of each class are the test images.

    Classes are numbered in the order of their WordNet ids, as in a folder of classes.
    """
    texts = {PurePosixPath(path).name: path for path in files if PurePosixPath(path).name in TEXTS}
    for name in ("wnids.txt", "val_annotations.txt"):
        if name not in texts:
            raise UserError(f"{name} not found: expected tiny-imagenet-200 with wnids.txt, train/ and val/")
    said = {name: _text(name, files[path]) for name, path in texts.items()}
    wnids = sorted(said["wnids.txt"].split())
    check_classes(len(wnids))
    numbers = {wnid: number for number, wnid in enumerate(wnids)}
    train = _training(files, numbers)
    test = _validation(files, said["val_annotations.txt"], numbers)
    return Dataset.of(_read(train, files), _read(test, files), _names(wnids, said.get("words.txt", "")))


def _text(name: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{name}: not text in UTF-8: {error.reason} at byte {error.start:,}") from error


def _training(files: Iterable[str], numbers: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return path and label of each training image, class by class and by number."""
    found = []
    for path in files:
        if match := TRAIN.search(path):
            if match["wnid"] not in numbers:
                raise UserError(f"{path}: its class is not in wnids.txt")
            found.append((numbers[match["wnid"]], int(match["number"]), path))
    if not found:
        raise UserError("no training image found: expected train/nXXXXXXXX/images/nXXXXXXXX_N.JPEG")
    return [(path, label) for label, _, path in sorted(found)]


def _validation(files: Iterable[str], annotations: str, numbers: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return path and label of each validation image, in the order of the annotations."""
    paths = {match["name"]: path for path in files if (match := VALIDATION.search(path))}
    found = []
    for line in annotations.splitlines():
        name, wnid = [*line.split("\t"), ""][:2]
        if wnid not in numbers:
            raise UserError(f"val_annotations.txt: '{brief(line)}' names no class of wnids.txt")
        if name not in paths:
            raise UserError(f"val_annotations.txt: {brief(name)} has a label, but is not in val/images")
        found.append((paths.pop(name), numbers[wnid]))
    if paths:
        raise UserError(f"{min(paths.values())}: no label in val_annotations.txt")
    return found


def _read(images: list[tuple[str, int]], files: Mapping[str, bytes]) -> Images:
    pixels = np.empty((len(images), SIDE, SIDE, 3), dtype=np.uint8)
    for row, (path, _) in zip(pixels, images, strict=True):
        values = decode(path, files[path])
        if values.shape != row.shape:
            height, width, _ = values.shape
            raise UserError(f"{path}: {width}×{height} pixels, expected {SIDE}×{SIDE}")
        row[:] = values
    return Images(torch.from_numpy(pixels), torch.tensor([label for _, label in images]))


def _names(wnids: list[str], words: str) -> tuple[str, ...]:
    """Return the first word for each class, with its WordNet id where that is not unique."""
    known = dict(line.split("\t", 1) for line in words.splitlines() if "\t" in line)
    first = [known.get(wnid, wnid).split(",")[0] for wnid in wnids]
    count = Counter(first)
    return tuple(name if count[name] == 1 else f"{name} ({wnid})" for name, wnid in zip(first, wnids, strict=True))


def check(dataset: Dataset) -> Iterator[str]:
    """Yield a line unless every class has its 500 training and 50 test images."""
    for name, images, expected in (("training", dataset.train, 500), ("test", dataset.test, 50)):
        counts = torch.bincount(images.labels, minlength=len(dataset.classes))
        if len(counts) != 200 or not bool((counts == expected).all()):
            yield f"{len(counts)} classes of {counts.min()} to {counts.max()} {name} images, expected 200 of {expected}"


class TinyImageNet(PublicData):
    """110 000 colour photographs of 64×64 pixels in 200 classes (TinyImageNet).

    Source: cut down from ImageNet for Stanford's course CS231n; use is under ImageNet's terms.
    """

    recipe: ClassVar = Recipe(
        name="tinyimagenet",
        train=100_000,
        test=10_000,
        side=64,
        classes=200,
        mean=(122.451, 114.2655, 101.3625),  # 255 times 0.4802, 0.4481, 0.3975, as commonly published
        std=(70.635, 68.6205, 71.9355),  # 255 times 0.2770, 0.2691, 0.2821
        sources=(
            Home(
                (
                    Remote(
                        ("https://cs231n.stanford.edu/tiny-imagenet-200.zip",),
                        248_100_043,
                        "90528d7ca1a48142e341f4ef8d21d0de",
                    ),
                )
            ),
        ),
        wanted=wanted,
        parse=parse,
        check=check,
        parts=True,
    )
