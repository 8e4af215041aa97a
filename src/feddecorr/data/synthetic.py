"""Seeded Gaussian classes of any size, for tests and for speed."""

from __future__ import annotations

import torch
from pydantic import Field, PositiveInt

from feddecorr.core.randomness import generator
from feddecorr.core.threads import threads
from feddecorr.data.dataset import Data, Dataset, Images

AT_ONCE = 1000
"""Images drawn at once: as floats they take four times the memory."""


class Synthetic(Data):
    """Images of Gaussian classes: a random mean image for each class plus independent noise."""

    train: PositiveInt = Field(2000, description="training images")
    test: PositiveInt = Field(500, description="test images")
    classes: int = Field(10, ge=2, description="classes, equally frequent up to rounding")
    channels: PositiveInt = Field(3, description="channels of an image")
    size: PositiveInt = Field(32, description="height and width of an image")
    noise: float = Field(2.0, gt=0, description="spread of the noise, where class means spread by 1")
    seed: int = Field(0, description="of the images themselves; the run's seed does not change them")

    def read(self) -> Dataset:
        """Draw the images; one unit of spread is 16 pixel values around 128."""
        shape = (self.size, self.size, self.channels)
        centres = torch.randn(self.classes, *shape, generator=generator(self.seed, "synthetic/classes"))

        def draw(part: str, count: int) -> Images:
            stream = generator(self.seed, f"synthetic/{part}")
            labels = torch.arange(count) % self.classes
            pixels = torch.empty(count, *shape, dtype=torch.uint8)
            for few, kept in zip(labels.split(AT_ONCE), pixels.split(AT_ONCE), strict=True):
                noise = torch.randn(len(few), *shape, generator=stream)
                kept.copy_(centres[few].add_(noise, alpha=self.noise).mul_(16).add_(128).round_().clamp_(0, 255))
            return Images(pixels, labels)

        names = tuple(str(label) for label in range(self.classes))
        with threads(1):  # a few thousand numbers at a time are too few for more to help each other
            return Dataset.of(draw("train", self.train), draw("test", self.test), names)
