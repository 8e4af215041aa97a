"""Data sets that need no download: embedded handwritten digits, and seeded Gaussian classes of any size."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import BeforeValidator, Field, PositiveInt
from torch import Tensor
from torch.nn.functional import pad

from feddecorr.core.randomness import frozen_stream, generator, threads
from feddecorr.core.text import read_list
from feddecorr.data.dataset import Data, Dataset, Images

TEST_EVERY = 5
DIGEST = "fa74e09b883fe06ca17649e4f5c25e67a4dfd219a0a5b1c107d5c27e13683888"

TURNS = 4
"""Quarter turns of an image, none included."""

AT_ONCE = 1000
"""Images drawn at once: as floats they take four times the memory."""


class Digits(Data):
    """1797 real handwritten digits of 8×8 pixels, embedded; every fifth image is a test image.

    Source: E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning
    Repository, 1998, https://doi.org/10.24432/C50P49 (CC BY 4.0); the part that scikit-learn ships.
    """

    augment: Annotated[tuple[Literal["crop", "flip"], ...], BeforeValidator(read_list)] = Field(
        (), description="augmentation of training images: none, or crop and flip (AutoAugment needs 256 grey values)"
    )

    def read(self) -> Dataset:
        """Return 1437 training and 360 test images with pixels from 0 to 16."""
        with np.load(str(files("feddecorr.data") / "digits.npz")) as stored:
            pixels = torch.from_numpy(stored["pixels"]).unsqueeze(-1)
            labels = torch.from_numpy(stored["labels"]).long()
        test = torch.arange(len(labels)) % TEST_EVERY == 0
        train = Images(pixels[~test], labels[~test])
        return Dataset.of(train, Images(pixels[test], labels[test]), tuple(str(digit) for digit in range(10)))

    def verify(self) -> tuple[Dataset, list[str]]:
        """Compare with the digest of the embedded images."""
        found = Digits.read(self).sha256
        return self.read(), [] if found == DIGEST else [f"the images have sha256 {found}, expected {DIGEST}"]


class RotatedDigits(Digits):
    """The embedded digits upright and turned by 90, 180 and 270 degrees; each digit at each turn is a class: 40.

    Ten upright digits need no more than nine dimensions; forty classes need enough that a collapse shows.
    """

    def read(self) -> Dataset:
        """Return 5748 training and 1440 test images; all turns of an image are in the same part."""
        upright = super().read()
        names = tuple(f"{digit} at {90 * turn}°" for turn in range(TURNS) for digit in upright.classes)
        classes = len(upright.classes)
        return Dataset.of(_turned(upright.train, classes), _turned(upright.test, classes), names)


def _turned(images: Images, classes: int) -> Images:
    pixels = [images.pixels.rot90(turn, (1, 2)) for turn in range(TURNS)]
    return Images(torch.cat(pixels), torch.cat([images.labels + turn * classes for turn in range(TURNS)]))


class DigitsByWriter(Digits):
    """The embedded digits in the hands of several writers: all write the same digits, each with a slant and ink.

    A feature shift made from real digits, for partition=given: every writer has as many of each digit as the others,
    give or take one. A hand moves each row sideways in proportion to its height, thins the ink, and has a broad pen
    or a fine one.
    """

    writers: PositiveInt = Field(10, description="writers, who are the clients of partition=given")
    shift: float = Field(1.0, ge=0, le=1, description="how much hands differ; 0: not at all")
    seed: int = Field(0, description="seed of the hands, and of the draw of train and test")

    def read(self) -> Dataset:
        """Return the digits of all writers; test images are written by the same ones."""
        plain = super().read()
        draws = frozen_stream(self.seed, "writers").uniform(size=(self.writers, 3))
        hands = [((2 * tilt - 1) * self.shift, ink * self.shift, pen * self.shift) for tilt, ink, pen in draws.tolist()]
        train, owners = _written(plain.train, hands)
        return Dataset.of(train, _written(plain.test, hands)[0], plain.classes, owners)


SLANT = 0.6
"""How far the strongest slants move a row to either side, as a share of its height above or below the middle."""

THINNEST = 0.6
"""Share of its ink that the lightest hand leaves out."""


def _written(images: Images, hands: Sequence[tuple[float, float, float]]) -> tuple[Images, Tensor]:
    """Assign the digits of each class to the writers in turn; return them as written, and the writers."""
    owners = torch.empty_like(images.labels)
    owners[images.labels.argsort(stable=True)] = torch.arange(len(images)) % len(hands)
    pixels = images.pixels.clone()
    for writer, (tilt, pale, pen) in enumerate(hands):
        drawn = pixels[owners == writer]
        if pen > 0.5:
            drawn = torch.maximum(drawn, pad(drawn, (0, 0, 1, -1)))
        rows = drawn.unbind(1)
        steps = [round(SLANT * tilt * ((len(rows) - 1) / 2 - place)) for place in range(len(rows))]
        drawn = torch.stack([pad(row, (0, 0, step, -step)) for row, step in zip(rows, steps, strict=True)], 1)
        pixels[owners == writer] = drawn.double().mul(1 - THINNEST * pale).round().to(torch.uint8)
    return Images(pixels, images.labels), owners


class Synthetic(Data):
    """Images of Gaussian classes: a random mean image for each class plus independent noise."""

    train: PositiveInt = Field(2000, description="training images")
    test: PositiveInt = Field(500, description="test images")
    classes: int = Field(10, ge=2, description="classes, equally frequent up to rounding")
    channels: PositiveInt = Field(3, description="channels of an image")
    size: PositiveInt = Field(32, description="height and width of an image")
    noise: float = Field(2.0, gt=0, description="standard deviation of the noise, relative to that of the class means")
    seed: int = Field(0, description="seed of the images themselves; the run's seed does not change them")

    def read(self) -> Dataset:
        """Draw the images; one standard deviation is 16 pixel values around 128."""
        shape = (self.size, self.size, self.channels)
        means = torch.randn(self.classes, *shape, generator=generator(self.seed, "synthetic/classes"))

        def draw(part: str, count: int) -> Images:
            stream = generator(self.seed, f"synthetic/{part}")
            labels = torch.arange(count) % self.classes
            pixels = torch.empty(count, *shape, dtype=torch.uint8)
            for few, out in zip(labels.split(AT_ONCE), pixels.split(AT_ONCE), strict=True):
                noise = torch.randn(len(few), *shape, generator=stream)
                out.copy_(means[few].add_(noise, alpha=self.noise).mul_(16).add_(128).round_().clamp_(0, 255))
            return Images(pixels, labels)

        names = tuple(str(label) for label in range(self.classes))
        with threads(1):  # a few thousand numbers at a time: more threads would not help
            return Dataset.of(draw("train", self.train), draw("test", self.test), names)
