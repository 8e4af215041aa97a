"""Images made smaller: each new pixel is the mean of the area that it covers."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from feddecorr.data.dataset import Dataset, Images
from feddecorr.errors import UserError

AT_ONCE = 1000
"""Images that are changed at once: as floats they take eight times the memory."""


def resize(dataset: Dataset, size: int) -> Dataset:
    """Return the data set with images of size×size; they are standardized by the constants of the whole ones."""
    _, *sides = dataset.shape
    if size > min(sides):
        raise UserError(f"data.size={size} is more than the images have: at most {min(sides)} for this data set")
    return replace(dataset, train=_shrink(dataset.train, size), test=_shrink(dataset.test, size))


def _shrink(images: Images, size: int) -> Images:
    height, width, channels = images.pixels.shape[1:]
    pixels = torch.empty(len(images), size, size, channels, dtype=torch.uint8)
    down, across = areas(height, size), areas(width, size)
    for few, kept in zip(images.pixels.split(AT_ONCE), pixels.split(AT_ONCE), strict=True):
        kept.copy_(torch.einsum("ih,jw,nhwc->nijc", down, across, few.double()).round_())
    return Images(pixels, images.labels)


def areas(before: int, after: int) -> Tensor:
    """Return how much of each new pixel's area each old one covers, shape (after, before); rows sum to one."""
    new, old = torch.arange(after).double()[:, None] * before, torch.arange(before).double() * after
    overlap = torch.minimum(new + before, old + after) - torch.maximum(new, old)
    return overlap.clamp(min=0) / before
