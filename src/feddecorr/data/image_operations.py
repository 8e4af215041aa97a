"""AutoAugment's image operations over a batch, equal to Pillow's to the last bit.

Images are of shape (n, height, width, channels) in uint8, with 1 or 3 channels. Operations that move pixels
take the nearest one, and fill with grey from outside the image.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn.functional import pad

FILL = 128
"""Middle grey, close to what AutoAugment's authors fill with: zero after standardizing."""

LUMA = (19595, 38470, 7471)
"""Weights of red, green and blue in a grey value (ITU-R 601), in units of 1/65536."""

Matrix = tuple[float, float, float, float, float, float]
"""(a, b, c, d, e, f): the pixel at (x, y) comes from (a·x + b·y + c, d·x + e·y + f)."""


def operate(pixels: Tensor, steps: Mapping[int, tuple[str, float]]) -> Tensor:
    """Apply `steps` (operation and amount by row) to the images; one pass for each operation."""
    pixels = pixels.clone()
    groups: dict[str, list[int]] = defaultdict(list)
    for row, (name, _) in steps.items():
        groups["warp" if name in WARPS else name].append(row)
    for group, rows in groups.items():
        index = torch.tensor(rows)
        chosen = pixels.index_select(0, index)
        if group == "warp":
            _, height, width, _ = pixels.shape
            changed = _warp(
                chosen, [WARPS[name](amount, height, width) for name, amount in (steps[row] for row in rows)]
            )
        else:
            changed = VALUE_OPERATIONS[group](
                chosen, torch.tensor([steps[row][1] for row in rows], dtype=torch.float32)
            )
        pixels.index_copy_(0, index, changed)
    return pixels


def shear_x(amount: float, *_: int) -> Matrix:
    """Move each row sideways by the amount times its number, counted from the top."""
    return 1, amount, 0, 0, 1, 0


def shear_y(amount: float, *_: int) -> Matrix:
    """Move each column by the amount times its number, counted from the left."""
    return 1, 0, 0, amount, 1, 0


def translate_x(amount: float, *_: int) -> Matrix:
    """Move to the left by the amount, in pixels."""
    return 1, 0, amount, 0, 1, 0


def translate_y(amount: float, *_: int) -> Matrix:
    """Move up by the amount, in pixels."""
    return 1, 0, 0, 0, 1, amount


def rotate(amount: float, height: int, width: int) -> Matrix:
    """Turn about the centre by the amount, in degrees, counter-clockwise."""
    cos, sin = math.cos(math.radians(amount)), math.sin(math.radians(amount))
    x, y = width / 2, height / 2
    return cos, -sin, x - cos * x + sin * y, sin, cos, y - sin * x - cos * y


def invert(pixels: Tensor, _: Tensor) -> Tensor:
    """Turn dark into bright."""
    return 255 - pixels


def solarize(pixels: Tensor, amounts: Tensor) -> Tensor:
    """Invert all values from a threshold on."""
    return torch.where(pixels < amounts.view(-1, 1, 1, 1), pixels, 255 - pixels)


def posterize(pixels: Tensor, amounts: Tensor) -> Tensor:
    """Keep the highest bits of each value; the amount is their number."""
    masks = 256 - torch.exp2(8 - amounts)
    return pixels & masks.to(torch.uint8).view(-1, 1, 1, 1)


def autocontrast(pixels: Tensor, _: Tensor) -> Tensor:
    """Stretch each channel from 0 to 255."""
    low, high = pixels.flatten(1, 2).double().aminmax(dim=1)
    scale = torch.full_like(low, 255) / (high - low)  # 255 as a number would be multiplied by a rounded reciprocal
    values = torch.arange(256, dtype=torch.float64)
    tables = values * scale.unsqueeze(-1) + (-low * scale).unsqueeze(-1)
    tables = torch.where((high > low).unsqueeze(-1), tables, values)  # a channel of one value stays as it is
    return _look_up(tables.clamp_(0, 255).to(torch.uint8), _places(pixels))


def equalize(pixels: Tensor, _: Tensor) -> Tensor:
    """Spread each channel's values so that they are equally frequent."""
    places = _places(pixels)
    images, channels = len(pixels), pixels.shape[3]
    counts = torch.bincount(places.flatten(), minlength=images * channels * 256).view(images, channels, 256)
    until = counts.cumsum(-1)
    largest = pixels.flatten(1, 2).amax(1).long().unsqueeze(-1)
    step = (until[..., -1:] - counts.gather(-1, largest)) // 255
    tables = (step // 2 + until - counts).div_(step.clamp(min=1), rounding_mode="floor").clamp_(max=255)
    return _look_up(torch.where(step > 0, tables, torch.arange(256)).to(torch.uint8), places)


def brightness(pixels: Tensor, amounts: Tensor) -> Tensor:
    """Multiply all values: 0 is black, 1 the image itself."""
    return _blend(torch.zeros((), dtype=torch.int32), pixels, amounts)


def contrast(pixels: Tensor, amounts: Tensor) -> Tensor:
    """Stretch about the image's mean grey value: 0 is grey, 1 the image itself."""
    count = pixels.shape[1] * pixels.shape[2]
    means = (2 * _grey(pixels).flatten(1).sum(1) + count) // (2 * count)
    return _blend(means.int().view(-1, 1, 1, 1), pixels, amounts)


def color(pixels: Tensor, amounts: Tensor) -> Tensor:
    """Stretch about each pixel's grey value: 0 is a grey image, 1 the image itself."""
    return _blend(_grey(pixels), pixels, amounts)


def sharpness(pixels: Tensor, amounts: Tensor) -> Tensor:
    """Stretch about a smoothed image: 0 is smooth, 1 the image itself; the border stays as it is."""
    wide = pixels.int()
    rows = wide[:, :-2] + wide[:, 1:-1] + wide[:, 2:]
    sums = rows[:, :, :-2] + rows[:, :, 1:-1] + rows[:, :, 2:] + 4 * wide[:, 1:-1, 1:-1]
    wide[:, 1:-1, 1:-1] = (2 * sums + 13) // 26
    return _blend(wide, pixels, amounts)


WARPS: dict[str, Callable[[float, int, int], Matrix]] = {
    "shear_x": shear_x,
    "shear_y": shear_y,
    "translate_x": translate_x,
    "translate_y": translate_y,
    "rotate": rotate,
}
"""Operations that move pixels."""

VALUE_OPERATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "autocontrast": autocontrast,
    "invert": invert,
    "equalize": equalize,
    "solarize": solarize,
    "posterize": posterize,
    "contrast": contrast,
    "color": color,
    "brightness": brightness,
    "sharpness": sharpness,
}
"""Operations on the values of pixels: they take images and their amounts, of shape (n,), which some ignore."""


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
