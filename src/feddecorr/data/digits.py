"""The handwritten digits that come with this package."""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import BeforeValidator, Field

from feddecorr.core.parsing import read_list
from feddecorr.data.dataset import Data, Dataset, Images

TEST_EVERY = 5
DIGEST = "fa74e09b883fe06ca17649e4f5c25e67a4dfd219a0a5b1c107d5c27e13683888"


class Digits(Data):
    """1797 real handwritten digits of 8×8 pixels, embedded; every fifth image is a test image.

    Source: E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning
    Repository, 1998, https://doi.org/10.24432/C50P49 (CC BY 4.0); the part that scikit-learn ships.
    """

    augment: Annotated[tuple[Literal["crop", "flip"], ...], BeforeValidator(read_list)] = Field(
        (), description="random changes of training images: none, or crop and flip (AutoAugment needs 256 grey values)"
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
        """Compare with the digest of the images as they were embedded."""
        dataset = self.read()
        found = dataset.sha256
        return dataset, [] if found == DIGEST else [f"the images have sha256 {found}, expected {DIGEST}"]
