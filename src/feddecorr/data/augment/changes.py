"""Random changes of training images, over a whole batch at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.nn.functional import pad

from feddecorr.data.augment.autoaugment import autoaugment


def crop(pixels: Tensor, generator: torch.Generator) -> Tensor:
    """Pad with black by an eighth of the size (4 pixels for 32) and cut out a random window of the old size."""
    images, height, width, channels = pixels.shape
    top, left = height // 8, width // 8
    padded = pad(pixels, (0, 0, left, left, top, top))
    rows = torch.randint(2 * top + 1, (images, 1), generator=generator) + torch.arange(height)
    columns = torch.randint(2 * left + 1, (images, 1), generator=generator) + torch.arange(width)
    rows += torch.arange(images).unsqueeze(1) * padded.shape[1]
    source = rows.unsqueeze(2) * padded.shape[2] + columns.unsqueeze(1)
    return padded.view(-1, channels).index_select(0, source.flatten()).view_as(pixels)


def flip(pixels: Tensor, generator: torch.Generator) -> Tensor:
    """Mirror each image from left to right with probability one half."""
    chosen = torch.randint(2, (len(pixels),), generator=generator).nonzero().squeeze(1)
    return pixels.index_copy(0, chosen, pixels.index_select(0, chosen).flip(2))


AUGMENTATIONS: dict[str, Callable[[Tensor, torch.Generator], Tensor]] = {
    "crop": crop,
    "flip": flip,
    "autoaugment": autoaugment,
}


def augment(pixels: Tensor, names: Iterable[str], generator: torch.Generator) -> Tensor:
    """Return changed (n, height, width, channels) pixels, by the named changes in their order."""
    for name in names:
        pixels = AUGMENTATIONS[name](pixels, generator)
    return pixels
