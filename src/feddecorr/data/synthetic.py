"""Seeded Gaussian classes of any size, for tests and for speed."""

from __future__ import annotations

import torch
from pydantic import Field, PositiveInt

from feddecorr.data.dataset import Data, Dataset, Images, channel_statistics
from feddecorr.randomness import generator


class Synthetic(Data):
    """Images of Gaussian classes: a random mean image for each class plus independent noise."""

    train: PositiveInt = Field(2000, description="training images")
    test: PositiveInt = Field(500, description="test images")
    classes: int = Field(10, ge=2, description="classes, equally frequent up to rounding")
    channels: PositiveInt = Field(3, description="channels of an image")
    size: PositiveInt = Field(32, description="height and width of an image")
    noise: float = Field(2.0, gt=0, description="spread of the noise, where class means spread by 1")
    seed: int = Field(0, description="of the images themselves; the run's seed does not change them")

    def load(self) -> Dataset:
        """Draw the images; one unit of spread is 16 pixel values around 128."""
        shape = (self.size, self.size, self.channels)
        centres = torch.randn(self.classes, *shape, generator=generator(self.seed, "synthetic/classes"))

        def draw(part: str, count: int) -> Images:
            labels = torch.arange(count) % self.classes
            noise = torch.randn(count, *shape, generator=generator(self.seed, f"synthetic/{part}"))
            values = centres[labels].add_(noise, alpha=self.noise).mul_(16).add_(128)
            return Images(values.round_().clamp_(0, 255).to(torch.uint8), labels)

        train = draw("train", self.train)
        mean, std = channel_statistics(train.pixels)
        names = tuple(str(label) for label in range(self.classes))
        return Dataset(train, draw("test", self.test), names, mean, std)
