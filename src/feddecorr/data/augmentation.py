"""Random augmentation of training images, a whole batch at once: crop, flip and AutoAugment's policy for CIFAR.

AutoAugment: Cubuk et al., 2019, arXiv:1805.09501. Its operations equal Pillow's to the last bit. Images are of shape
(n, height, width, channels) in uint8, with 1 or 3 channels for AutoAugment. Operations that move pixels take the
nearest one, and fill with grey from outside the image.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor
from torch.nn.functional import pad

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

AMOUNTS: dict[str, Callable[[float, int, int], float]] = {
    **dict.fromkeys(("shear_x", "shear_y"), lambda strength, *_: 0.3 * strength),
    "translate_x": lambda strength, _, width: int(MAX_TRANSLATION * strength * width),
    "translate_y": lambda strength, height, _: int(MAX_TRANSLATION * strength * height),
    "rotate": lambda strength, *_: 30 * strength,
    **dict.fromkeys(("contrast", "color", "brightness", "sharpness"), lambda strength, *_: 1 + 0.9 * strength),
    "posterize": lambda strength, *_: 8 - round(4 * abs(strength)),
    "solarize": lambda strength, *_: 256 * (1 - abs(strength)),
    **dict.fromkeys(("autocontrast", "invert", "equalize"), lambda *_: 0),
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


def operate(pixels: Tensor, steps: Mapping[int, tuple[str, float]]) -> Tensor:
    """Apply `steps` (operation and amount by row) to the images; one pass for each operation."""
    pixels = pixels.clone()
    _, height, width, _ = pixels.shape
    groups: dict[str, list[int]] = defaultdict(list)
    for row, (name, _) in steps.items():
        groups["warp" if name in WARPS else name].append(row)
    for group, rows in groups.items():
        index = torch.tensor(rows)
        chosen = pixels.index_select(0, index)
        drawn = [steps[row] for row in rows]
        if group == "warp":
            changed = _warp(chosen, [WARPS[name](amount, height, width) for name, amount in drawn])
        else:
            changed = VALUE_OPERATIONS[group](chosen, torch.tensor([float(amount) for _, amount in drawn]))
        pixels.index_copy_(0, index, changed)
    return pixels


FILL = 128
"""Middle grey, close to what AutoAugment's authors fill with: zero after standardizing."""

LUMA = (19595, 38470, 7471)
"""Weights of red, green and blue in a grey value (ITU-R 601), in units of 1/65536."""

Matrix = tuple[float, float, float, float, float, float]
"""(a, b, c, d, e, f): the pixel at (x, y) comes from (a·x + b·y + c, d·x + e·y + f)."""


def _rotate(amount: float, height: int, width: int) -> Matrix:
    cos, sin = math.cos(math.radians(amount)), math.sin(math.radians(amount))
    x, y = width / 2, height / 2
    return cos, -sin, x - cos * x + sin * y, sin, cos, y - sin * x - cos * y


WARPS: dict[str, Callable[[float, int, int], Matrix]] = {
    "shear_x": lambda amount, *_: (1, amount, 0, 0, 1, 0),
    "shear_y": lambda amount, *_: (1, 0, 0, amount, 1, 0),
    "translate_x": lambda amount, *_: (1, 0, amount, 0, 1, 0),
    "translate_y": lambda amount, *_: (1, 0, 0, 0, 1, amount),
    "rotate": _rotate,
}
"""Operations that move pixels, by an amount in pixels (translations) or in degrees, counter-clockwise (rotation)."""


def _warp(pixels: Tensor, matrices: list[Matrix]) -> Tensor:
    """Move pixels, counted from their centres in steps of 1/65536, as Pillow does."""
    images, height, width, channels = pixels.shape
    fixed = [
        [math.floor(65536 * entry + 0.5) for entry in (a, b, c + (a + b) / 2, d, e, f + (d + e) / 2)]
        for a, b, c, d, e, f in matrices
    ]
    a, b, c, d, e, f = torch.tensor(fixed, dtype=torch.int32).view(-1, 6, 1, 1).unbind(1)
    x, y = torch.arange(width, dtype=torch.int32), torch.arange(height, dtype=torch.int32).unsqueeze(1)
    # Whatever lies outside is read from a border of one pixel.
    column = (a * x + c + b * y).bitwise_right_shift_(16).clamp_(-1, width)
    row = (d * x + f + e * y).bitwise_right_shift_(16).clamp_(-1, height)
    bordered = pad(pixels, (0, 0, 1, 1, 1, 1), value=FILL)
    first = torch.arange(images, dtype=torch.int32).view(-1, 1, 1) * (height + 2) + 1
    source = row.add_(first).mul_(width + 2).add_(column).add_(1)
    return bordered.view(-1, channels).index_select(0, source.flatten()).view_as(pixels)


def _solarize(pixels: Tensor, amounts: Tensor) -> Tensor:
    """Invert all values from a threshold on."""
    return torch.where(pixels < amounts.view(-1, 1, 1, 1), pixels, 255 - pixels)


def _posterize(pixels: Tensor, amounts: Tensor) -> Tensor:
    """Keep the highest bits of each value; the amount is their number."""
    masks = 256 - torch.exp2(8 - amounts)
    return pixels & masks.to(torch.uint8).view(-1, 1, 1, 1)


def _autocontrast(pixels: Tensor, _: Tensor) -> Tensor:
    """Stretch each channel from 0 to 255."""
    low, high = pixels.flatten(1, 2).double().aminmax(dim=1)
    scale = torch.full_like(low, 255) / (high - low)  # 255 as a number would be multiplied by a rounded reciprocal
    values = torch.arange(256, dtype=torch.float64)
    tables = values * scale.unsqueeze(-1) + (-low * scale).unsqueeze(-1)
    tables = torch.where((high > low).unsqueeze(-1), tables, values)  # a channel of one value stays as it is
    return _look_up(tables.clamp_(0, 255).to(torch.uint8), _places(pixels))


def _equalize(pixels: Tensor, _: Tensor) -> Tensor:
    """Spread each channel's values so that they are equally frequent."""
    places = _places(pixels)
    images, channels = len(pixels), pixels.shape[3]
    counts = torch.bincount(places.flatten(), minlength=images * channels * 256).view(images, channels, 256)
    until = counts.cumsum(-1)
    largest = pixels.flatten(1, 2).amax(1).long().unsqueeze(-1)
    step = (until[..., -1:] - counts.gather(-1, largest)) // 255
    tables = (step // 2 + until - counts).div_(step.clamp(min=1), rounding_mode="floor").clamp_(max=255)
    return _look_up(torch.where(step > 0, tables, torch.arange(256)).to(torch.uint8), places)


def _contrast(pixels: Tensor, amounts: Tensor) -> Tensor:
    """Stretch about the image's mean grey value: 0 is grey, 1 the image itself."""
    count = pixels.shape[1] * pixels.shape[2]
    means = (2 * _grey(pixels).flatten(1).sum(1) + count) // (2 * count)
    return _blend(means.int().view(-1, 1, 1, 1), pixels, amounts)


def _sharpness(pixels: Tensor, amounts: Tensor) -> Tensor:
    """Stretch about a smoothed image: 0 is smooth, 1 the image itself; the border stays as it is."""
    wide = pixels.int()
    rows = wide[:, :-2] + wide[:, 1:-1] + wide[:, 2:]
    sums = rows[:, :, :-2] + rows[:, :, 1:-1] + rows[:, :, 2:] + 4 * wide[:, 1:-1, 1:-1]
    wide[:, 1:-1, 1:-1] = (2 * sums + 13) // 26
    return _blend(wide, pixels, amounts)


def _places(pixels: Tensor) -> Tensor:
    """Return for each value its place in tables of shape (n, channels, 256) that lie in a row."""
    images, *_, channels = pixels.shape
    first = torch.arange(images * channels, dtype=torch.int32) * 256
    return pixels + first.view(images, 1, 1, channels)


def _look_up(tables: Tensor, places: Tensor) -> Tensor:
    return tables.flatten().index_select(0, places.flatten()).view_as(places)


def _grey(pixels: Tensor) -> Tensor:
    """Return grey values of shape (n, height, width, 1)."""
    if pixels.shape[3] == 1:
        return pixels.int()
    red, green, blue = pixels.int().split(1, dim=3)
    return torch.bitwise_right_shift(LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue + 32768, 16)


def _blend(zero: Tensor, pixels: Tensor, amounts: Tensor) -> Tensor:
    """Interpolate from `zero` (whole numbers) at 0 to the image at 1, and extrapolate beyond."""
    blended = torch.add((pixels - zero) * amounts.view(-1, 1, 1, 1), zero)
    return blended.clamp_(0, 255).to(torch.uint8)


VALUE_OPERATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "autocontrast": _autocontrast,
    "invert": lambda pixels, _: 255 - pixels,
    "equalize": _equalize,
    "solarize": _solarize,
    "posterize": _posterize,
    "contrast": _contrast,
    "color": lambda pixels, amounts: _blend(_grey(pixels), pixels, amounts),
    "brightness": lambda pixels, amounts: _blend(torch.zeros((), dtype=torch.int32), pixels, amounts),
    "sharpness": _sharpness,
}
"""Operations on the values of pixels: they take images and their amounts, of shape (n,), which some ignore.

The last four stretch: amount 0 is grey, a grey image, black or a smoothed image, and 1 the image itself.
"""
