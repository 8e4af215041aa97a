"""Random augmentation of training images, a whole batch at once: crop, flip and AutoAugment's policy for CIFAR.

AutoAugment: Cubuk et al., 2019, arXiv:1805.09501.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.nn.functional import pad

from feddecorr.data.image_operations import operate
from feddecorr.errors import UserError

SubPolicyStep = tuple[str, float, int]
"""An operation, its probability, and its level from 0 to 9."""

POLICY: tuple[tuple[SubPolicyStep, SubPolicyStep], ...] = (
    (("invert", 0.1, 7), ("contrast", 0.2, 6)),
    (("rotate", 0.7, 2), ("translate_x", 0.3, 9)),
    (("sharpness", 0.8, 1), ("sharpness", 0.9, 3)),
    (("shear_y", 0.5, 8), ("translate_y", 0.7, 9)),
    (("autocontrast", 0.5, 8), ("equalize", 0.9, 2)),
    (("shear_y", 0.2, 7), ("posterize", 0.3, 7)),
    (("color", 0.4, 3), ("brightness", 0.6, 7)),
    (("sharpness", 0.3, 9), ("brightness", 0.7, 9)),
    (("equalize", 0.6, 5), ("equalize", 0.5, 1)),
    (("contrast", 0.6, 7), ("sharpness", 0.6, 5)),
    (("color", 0.7, 7), ("translate_x", 0.5, 8)),
    (("equalize", 0.3, 7), ("autocontrast", 0.4, 8)),
    (("translate_y", 0.4, 3), ("sharpness", 0.2, 6)),
    (("brightness", 0.9, 6), ("color", 0.2, 8)),
    (("solarize", 0.5, 2), ("invert", 0.0, 3)),
    (("equalize", 0.2, 0), ("autocontrast", 0.6, 0)),
    (("equalize", 0.2, 8), ("equalize", 0.6, 4)),
    (("color", 0.9, 9), ("equalize", 0.6, 6)),
    (("autocontrast", 0.8, 4), ("solarize", 0.2, 8)),
    (("brightness", 0.1, 3), ("color", 0.7, 0)),
    (("solarize", 0.4, 5), ("autocontrast", 0.9, 3)),
    (("translate_y", 0.9, 9), ("translate_y", 0.7, 9)),
    (("autocontrast", 0.9, 2), ("solarize", 0.8, 3)),
    (("equalize", 0.8, 8), ("invert", 0.1, 3)),
    (("translate_y", 0.7, 9), ("autocontrast", 0.9, 1)),
)
"""The 25 sub-policies found on CIFAR-10 (the article's table 7)."""


MAX_TRANSLATION = 150 / 331
"""The farthest translation: 150 pixels of the 331 that images have in the article."""


def _shear(strength: float, *_: int) -> float:
    return 0.3 * strength


def _enhance(strength: float, *_: int) -> float:
    return 1 + 0.9 * strength


AMOUNTS: dict[str, Callable[[float, int, int], float]] = {
    "shear_x": _shear,
    "shear_y": _shear,
    "translate_x": lambda strength, _, width: int(MAX_TRANSLATION * strength * width),
    "translate_y": lambda strength, height, _: int(MAX_TRANSLATION * strength * height),
    "rotate": lambda strength, *_: 30 * strength,
    "contrast": _enhance,
    "color": _enhance,
    "brightness": _enhance,
    "sharpness": _enhance,
    "posterize": lambda strength, *_: 8 - round(4 * abs(strength)),
    "solarize": lambda strength, *_: 256 * (1 - abs(strength)),
    "autocontrast": lambda *_: 0,
    "invert": lambda *_: 0,
    "equalize": lambda *_: 0,
}
"""The amount of an operation at a strength from −1 to 1, for images of a height and width (the ranges of table 6).

Several readings of the ranges are in use. Here a level of 0 to 9 is a strength of 0 to 1 with a random sign,
and strength 0 leaves the image as it is, wherever strength matters.
"""


def autoaugment(pixels: Tensor, generator: torch.Generator) -> Tensor:
    """Draw one of the sub-policies for each image, and apply its two steps, each with its probability."""
    count, height, width, channels = pixels.shape
    if channels not in (1, 3):
        raise UserError(f"AutoAugment needs grey or RGB images, not {channels} channels: leave it out of data.augment")
    choices = torch.randint(len(POLICY), (count,), generator=generator).tolist()
    chances = torch.rand(2, count, generator=generator).tolist()
    signs = torch.randint(2, (2, count), generator=generator).tolist()
    for step in (0, 1):
        drawn = {}
        for row, (choice, chance, sign) in enumerate(zip(choices, chances[step], signs[step], strict=True)):
            name, probability, level = POLICY[choice][step]
            if chance < probability:
                drawn[row] = name, AMOUNTS[name]((level if sign else -level) / 9, height, width)
        pixels = operate(pixels, drawn)
    return pixels


def crop(pixels: Tensor, generator: torch.Generator) -> Tensor:
    """Pad with black by an eighth of the size (4 pixels for 32) and cut out a random window of the original size."""
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
    """Apply the named augmentations, in their order, to (n, height, width, channels) pixels."""
    for name in names:
        pixels = AUGMENTATIONS[name](pixels, generator)
    return pixels
