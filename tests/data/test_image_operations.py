import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from feddecorr.data.augmentation import FILL, VALUE_OPERATIONS, WARPS, operate

Pillow = Callable[[Image.Image, float], Image.Image]


def _transform(matrix: Callable[[float], tuple[float, ...]]) -> Pillow:
    def transform(picture: Image.Image, amount: float) -> Image.Image:
        return picture.transform(
            picture.size, Image.Transform.AFFINE, matrix(amount), Image.Resampling.NEAREST, fillcolor=_grey(picture)
        )

    return transform


def _grey(picture: Image.Image) -> int | tuple[int, ...]:
    return FILL if picture.mode == "L" else (FILL,) * 3


PILLOW: dict[str, Pillow] = {
    "shear_x": _transform(lambda amount: (1, amount, 0, 0, 1, 0)),
    "shear_y": _transform(lambda amount: (1, 0, 0, amount, 1, 0)),
    "translate_x": _transform(lambda amount: (1, 0, amount, 0, 1, 0)),
    "translate_y": _transform(lambda amount: (1, 0, 0, 0, 1, amount)),
    "rotate": lambda picture, amount: picture.rotate(amount, Image.Resampling.NEAREST, fillcolor=_grey(picture)),
    "autocontrast": lambda picture, _: ImageOps.autocontrast(picture),
    "invert": lambda picture, _: ImageOps.invert(picture),
    "equalize": lambda picture, _: ImageOps.equalize(picture),
    "solarize": lambda picture, amount: ImageOps.solarize(picture, math.ceil(amount)),
    "posterize": lambda picture, amount: ImageOps.posterize(picture, int(amount)),
    "contrast": lambda picture, amount: ImageEnhance.Contrast(picture).enhance(amount),
    "color": lambda picture, amount: ImageEnhance.Color(picture).enhance(amount),
    "brightness": lambda picture, amount: ImageEnhance.Brightness(picture).enhance(amount),
    "sharpness": lambda picture, amount: ImageEnhance.Sharpness(picture).enhance(amount),
}

RANGES = {
    **dict.fromkeys(("shear_x", "shear_y"), (-0.4, 0.4)),
    **dict.fromkeys(("translate_x", "translate_y"), (-20.0, 20.0)),
    "rotate": (-180.0, 180.0),
    "solarize": (0.0, 256.0),
    "posterize": (1.0, 8.0),
}


def images(shape: tuple[int, ...]) -> Tensor:
    """Noise of full and of low contrast, images of few values and of one, and smooth ones."""
    chance = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, shape, dtype=torch.uint8, generator=chance)
    pixels[0::6] = pixels[0::6] // 3 + 90
    pixels[1::6] = pixels[1::6] // 80 * 70
    pixels[2] = 7
    slope = torch.arange(shape[1]).view(-1, 1, 1) * 3 + torch.arange(shape[2]).view(-1, 1) * 2
    pixels[3::6] = (slope % 256).to(torch.uint8)
    return pixels


@pytest.mark.parametrize("shape", [(48, 32, 32, 3), (24, 28, 28, 1), (12, 64, 64, 3), (12, 5, 9, 3), (6, 2, 1, 3)])
@pytest.mark.parametrize("name", PILLOW)
def test_an_operation_does_to_a_batch_what_pillow_does_to_each_image(name: str, shape: tuple[int, ...]) -> None:
    """To the last bit, whatever the size, the number of channels and the amount."""
    pixels = images(shape)
    low, high = RANGES.get(name, (0.0, 2.0))
    chance = torch.Generator().manual_seed(1)
    amounts = (low + (high - low) * torch.rand(len(pixels), generator=chance)).tolist()
    if name.startswith("translate") or name == "posterize":
        amounts = [float(round(amount)) for amount in amounts]
    changed = operate(pixels, {row: (name, amount) for row, amount in enumerate(amounts)})
    for image, amount, got in zip(pixels, amounts, changed, strict=True):
        picture = Image.fromarray(image.squeeze(-1).numpy() if shape[3] == 1 else image.numpy())
        expected = np.asarray(PILLOW[name](picture, amount)).reshape(shape[1:])
        np.testing.assert_array_equal(got.numpy(), expected)


def test_every_operation_is_compared_with_pillow() -> None:
    assert {*WARPS, *VALUE_OPERATIONS} == set(PILLOW)


def test_operations_of_one_batch_do_not_touch_each_other() -> None:
    """Each image comes out as if it were alone, images without an operation as they were, and the input stays."""
    pixels = images((18, 16, 16, 3))
    before = pixels.clone()
    steps = {row: (name, 1.4 if name != "posterize" else 3.0) for row, name in enumerate(PILLOW)}
    together = operate(pixels, steps)
    assert torch.equal(pixels, before)
    assert torch.equal(together[len(steps) :], pixels[len(steps) :])
    for row, step in steps.items():
        assert torch.equal(together[row], operate(pixels[row : row + 1], {0: step})[0])
