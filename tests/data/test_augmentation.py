import numpy as np
import pytest
import torch
from small import result, small
from torch import Tensor

from feddecorr.data import augmentation
from feddecorr.data.augmentation import (
    AMOUNTS,
    POLICY,
    VALUE_OPERATIONS,
    WARPS,
    augment,
    augment_batches,
    operate,
)
from feddecorr.errors import UserError
from feddecorr.runs.pipeline import run


def noise(*shape: int) -> Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def chance(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_a_crop_is_a_window_of_the_image_with_a_black_border() -> None:
    """And every window is drawn, about equally often."""
    pixels = noise(1, 16, 24, 3).expand(3000, -1, -1, -1).contiguous()
    padded = np.pad(pixels[0].numpy(), ((2, 2), (3, 3), (0, 0)))
    windows = {padded[top : top + 16, left : left + 24].tobytes(): 0 for top in range(5) for left in range(7)}
    for image in augment(pixels, ["crop"], chance()):
        windows[image.numpy().tobytes()] += 1
    counts = np.array(list(windows.values()))
    expected = 3000 / 35
    assert len(counts) == 35
    assert ((counts - expected) ** 2 / expected).sum() < 70  # chi-squared with 34 degrees of freedom


def test_a_flip_mirrors_about_half_of_the_images_and_leaves_the_others() -> None:
    pixels = noise(1000, 4, 6, 1)
    mirrored = 0
    for before, after in zip(pixels, augment(pixels, ["flip"], chance()), strict=True):
        if torch.equal(after, before.flip(1)):
            mirrored += 1
        else:
            assert torch.equal(after, before)
    assert 430 < mirrored < 570


@pytest.mark.parametrize("shape", [(64, 32, 32, 3), (8, 28, 28, 1), (20, 8, 24, 3)])
def test_autoaugment_is_its_policy_image_by_image(shape: tuple[int, ...]) -> None:
    """The same draws, applied to one image after another, give the same batch."""
    pixels = noise(*shape)
    batch = augment(pixels, ["autoaugment"], chance(3))
    draws = chance(3)
    choices = torch.randint(25, (len(pixels),), generator=draws)
    chances = torch.rand(2, len(pixels), generator=draws)
    signs = torch.randint(2, (2, len(pixels)), generator=draws)
    for row, image in enumerate(pixels):
        alone = image.unsqueeze(0)
        for step, (name, probability, level) in enumerate(POLICY[int(choices[row])]):
            if float(chances[step, row]) < probability:
                strength = (1 if signs[step, row] else -1) * level / 9
                alone = operate(alone, {0: (name, AMOUNTS[name](strength, *shape[1:3]))})
        assert torch.equal(batch[row], alone[0])


def test_the_policy_has_25_pairs_of_known_operations() -> None:
    assert len(POLICY) == 25
    for pair in POLICY:
        for name, probability, level in pair:
            assert name in AMOUNTS
            assert 0 <= probability <= 1
            assert level in range(10)


@pytest.mark.parametrize("name", sorted({*WARPS, *VALUE_OPERATIONS} - {"autocontrast", "equalize", "invert"}))
def test_an_operation_of_strength_zero_changes_nothing(name: str) -> None:
    pixels = noise(4, 32, 32, 3)
    assert torch.equal(operate(pixels, {row: (name, AMOUNTS[name](0.0, 32, 32)) for row in range(4)}), pixels)


@pytest.mark.parametrize("name", sorted(augmentation.AUGMENTATIONS))
def test_the_generator_alone_decides(name: str) -> None:
    """Equal seeds give equal batches, other seeds others, and the input stays as it was."""
    pixels = noise(32, 16, 16, 3)
    before = pixels.clone()
    first, again, other = (augment(pixels, [name], chance(seed)) for seed in (1, 1, 2))
    assert torch.equal(pixels, before)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_several_batches_at_once_are_what_they_are_one_by_one() -> None:
    names, sizes, pixels = ["crop", "flip", "autoaugment"], [12, 12, 5], noise(29, 16, 16, 3)
    stream = chance(4)
    alone = [augment(batch, names, stream) for batch in pixels.split(sizes)]
    assert torch.equal(augment_batches(pixels, sizes, names, chance(4)), torch.cat(alone))


def test_autoaugment_refuses_channels_that_are_no_colours() -> None:
    with pytest.raises(UserError, match="4 channels"):
        augment(noise(2, 8, 8, 4), ["autoaugment"], chance())


def test_a_run_with_augmentation_can_be_repeated_and_differs_from_one_without() -> None:
    words = ("rounds=1", "data.size=16", "data.augment=crop,flip,autoaugment")
    first, again, plain = (result(run(*small(*some))) for some in (words, words, words[:2]))
    assert first == again
    assert first != plain


def test_names_of_augmentations_are_checked() -> None:
    assert small("data.augment=none").experiment.data.augment == ()
    assert small("data.augment=flip,crop").experiment.data.augment == ("flip", "crop")
    with pytest.raises(UserError, match="autoaugment"):
        small("data.augment=flip,cutout")
    with pytest.raises(UserError, match="'crop' or 'flip'"):
        small("data=digits", "data.augment=autoaugment")
