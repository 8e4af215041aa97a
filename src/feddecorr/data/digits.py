"""The handwritten digits that come with this package."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import torch

from feddecorr.data.dataset import Data, Dataset, Images, channel_statistics

TEST_EVERY = 5


class Digits(Data):
    """1797 real handwritten digits of 8×8 pixels, embedded; every fifth image is a test image.

    Source: E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning
    Repository, 1998, https://doi.org/10.24432/C50P49 (CC BY 4.0); the part that scikit-learn ships.
    """

    def load(self) -> Dataset:
        """Return 1437 training and 360 test images with pixels from 0 to 16."""
        with np.load(str(files("feddecorr.data") / "digits.npz")) as stored:
            pixels = torch.from_numpy(stored["pixels"]).unsqueeze(-1)
            labels = torch.from_numpy(stored["labels"]).long()
        test = torch.arange(len(labels)) % TEST_EVERY == 0
        train = Images(pixels[~test], labels[~test])
        mean, std = channel_statistics(train.pixels)
        names = tuple(str(digit) for digit in range(10))
        return Dataset(train, Images(pixels[test], labels[test]), names, mean, std)
