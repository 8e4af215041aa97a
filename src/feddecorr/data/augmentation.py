"""Random augmentation of training images, a whole batch at once: crop, flip and AutoAugment's policy for CIFAR.

AutoAugment: Cubuk et al., 2019, arXiv:1805.09501. Its operations equal Pillow's to the last bit. Images are of shape
(n, height, width, channels) in uint8, with 1 or 3 channels for AutoAugment. Operations that move pixels take the
nearest one, and fill with grey from outside the image.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

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


BatchShape = tuple[int, int, int, int]
"""Images, height, width, channels."""

Steps = tuple[dict[int, tuple[str, float]], dict[int, tuple[str, float]]]
"""The operation and its amount by row, of the first step and of the second."""

Drawn = Tensor | Steps
"""What chance has chosen for a batch, on the host: where windows begin, rows to mirror, or AutoAugment's steps."""


def _draw_policies(shape: BatchShape, generator: torch.Generator) -> Steps:
    count, height, width, channels = shape
    if channels not in (1, 3):
        raise UserError(f"AutoAugment needs grey or RGB images, not {channels} channels: leave it out of data.augment")
    choices = torch.randint(len(POLICY), (count,), generator=generator).tolist()
    chances = torch.rand(2, count, generator=generator).tolist()
    signs = torch.randint(2, (2, count), generator=generator).tolist()
    steps: Steps = {}, {}
    for step, drawn in enumerate(steps):
        for row, (choice, chance, sign) in enumerate(zip(choices, chances[step], signs[step], strict=True)):
            name, probability, level = POLICY[choice][step]
            if chance < probability:
                drawn[row] = name, AMOUNTS[name]((level if sign else -level) / 9, height, width)
    return steps


def _apply_policies(pixels: Tensor, steps: Steps) -> Tensor:
    for drawn in steps:
        pixels = operate(pixels, drawn)
    return pixels


def _draw_windows(shape: BatchShape, generator: torch.Generator) -> Tensor:
    images, height, width, _ = shape
    return torch.cat(
        [torch.randint(2 * (size // 8) + 1, (images, 1), generator=generator) for size in (height, width)], 1
    )


def _cut(pixels: Tensor, windows: Tensor) -> Tensor:
    images, height, width, channels = pixels.shape
    top, left, device = height // 8, width // 8, pixels.device
    padded = pad(pixels, (0, 0, left, left, top, top))
    first, second = windows.to(device).split(1, dim=1)
    rows, columns = first + torch.arange(height, device=device), second + torch.arange(width, device=device)
    rows += torch.arange(images, device=device).unsqueeze(1) * padded.shape[1]
    source = rows.unsqueeze(2) * padded.shape[2] + columns.unsqueeze(1)
    return padded.view(-1, channels).index_select(0, source.flatten()).view_as(pixels)


def _draw_mirrored(shape: BatchShape, generator: torch.Generator) -> Tensor:
    return torch.randint(2, shape[:1], generator=generator).nonzero().squeeze(1)


def _mirror(pixels: Tensor, chosen: Tensor) -> Tensor:
    chosen = chosen.to(pixels.device)
    return pixels.index_copy(0, chosen, pixels.index_select(0, chosen).flip(2))


class Augmenter(NamedTuple):
    """What chance chooses, on the host, and what is done with it, wherever the images are."""

    draw: Callable[[BatchShape, torch.Generator], Any]
    apply: Callable[[Tensor, Any], Tensor]


AUGMENTATIONS = {
    "crop": Augmenter(_draw_windows, _cut),
    "flip": Augmenter(_draw_mirrored, _mirror),
    "autoaugment": Augmenter(_draw_policies, _apply_policies),
}
"""crop: padded with black by an eighth of the size (4 pixels for 32), a random window of the original size.

flip: mirrored from left to right with probability one half.
autoaugment: one of the sub-policies for each image, its two steps each with its probability.
"""


def augment(pixels: Tensor, names: Iterable[str], generator: torch.Generator) -> Tensor:
    """Apply the named augmentations, in their order, to (n, height, width, channels) pixels."""
    return apply(pixels, names, draw(pixels.shape, names, generator))


def draw(shape: Sequence[int], names: Iterable[str], generator: torch.Generator) -> list[Drawn]:
    """Return what chance chooses for a batch of that shape."""
    images, height, width, channels = shape
    return [AUGMENTATIONS[name].draw((images, height, width, channels), generator) for name in names]


def apply(pixels: Tensor, names: Iterable[str], drawn: Iterable[Drawn]) -> Tensor:
    """Apply the drawn changes."""
    for name, each in zip(names, drawn, strict=True):
        pixels = AUGMENTATIONS[name].apply(pixels, each)
    return pixels


def augment_batches(pixels: Tensor, sizes: Sequence[int], names: Iterable[str], generator: torch.Generator) -> Tensor:
    """Apply them to several batches in one go, with what is drawn for one after the other."""
    names = list(names)
    drawn = [draw((size, *pixels.shape[1:]), names, generator) for size in sizes]
    starts = [0, *accumulate(sizes[:-1])]
    return apply(
        pixels, names, [_join(name, starts, each) for name, each in zip(names, zip(*drawn, strict=True), strict=True)]
    )


def _join(name: str, starts: Sequence[int], drawn: Sequence[Any]) -> Drawn:
    """Return what is drawn for several batches as if they were one."""
    if name == "crop":
        return torch.cat(list(drawn))
    if name == "flip":
        return torch.cat([start + rows for start, rows in zip(starts, drawn, strict=True)])
    first, second = (
        {start + row: done for start, steps in zip(starts, drawn, strict=True) for row, done in steps[step].items()}
        for step in (0, 1)
    )
    return first, second


def operate(pixels: Tensor, steps: Mapping[int, tuple[str, float]]) -> Tensor:
    """Apply `steps` (operation and amount by row) to the images; one pass for each operation."""
    pixels = pixels.clone()
    _, height, width, _ = pixels.shape
    groups: dict[str, list[int]] = defaultdict(list)
    for row, (name, _) in steps.items():
        groups["warp" if name in WARPS else name].append(row)
    for group, rows in groups.items():
        index = torch.tensor(rows).to(pixels.device)
        chosen = pixels.index_select(0, index)
        drawn = [steps[row] for row in rows]
        if group == "warp":
            changed = _warp(chosen, [WARPS[name](amount, height, width) for name, amount in drawn])
        else:
            changed = VALUE_OPERATIONS[group](
                chosen, torch.tensor([float(amount) for _, amount in drawn]).to(pixels.device)
            )
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
    a, b, c, d, e, f = torch.tensor(fixed, dtype=torch.int32).to(pixels.device).view(-1, 6, 1, 1).unbind(1)
    count = partial(torch.arange, dtype=torch.int32, device=pixels.device)
    x, y = count(width), count(height).unsqueeze(1)
    # Whatever lies outside is read from a border of one pixel.
    column = (a * x + c + b * y).bitwise_right_shift_(16).clamp_(-1, width)
    row = (d * x + f + e * y).bitwise_right_shift_(16).clamp_(-1, height)
    bordered = pad(pixels, (0, 0, 1, 1, 1, 1), value=FILL)
    first = count(images).view(-1, 1, 1) * (height + 2) + 1
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
    values = torch.arange(256, dtype=torch.float64, device=pixels.device)
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
    return _look_up(torch.where(step > 0, tables, torch.arange(256, device=pixels.device)).to(torch.uint8), places)


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
    first = torch.arange(images * channels, dtype=torch.int32, device=pixels.device) * 256
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
    "brightness": lambda pixels, amounts: _blend(pixels.new_zeros((), dtype=torch.int32), pixels, amounts),
    "sharpness": _sharpness,
}
"""Operations on the values of pixels: they take images and their amounts, of shape (n,), which some ignore.

The last four stretch: amount 0 is grey, a grey image, black or a smoothed image, and 1 the image itself.
"""
