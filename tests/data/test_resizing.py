"""Images made smaller."""

import pytest
import torch

from feddecorr.data.dataset import Dataset, Images
from feddecorr.data.public import areas, resize
from feddecorr.errors import UserError


def pictures(count: int, side: int) -> Images:
    stream = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (count, side, side, 3), dtype=torch.uint8, generator=stream)
    return Images(pixels, torch.arange(count) % 2)


def dataset(side: int) -> Dataset:
    return Dataset.of(pictures(6, side), pictures(4, side), ("a", "b"))


def test_half_the_size_is_the_mean_of_four_pixels() -> None:
    """Rounded to a whole number, for training and test images alike; labels and constants stay."""
    whole = dataset(8)
    small = resize(whole, 4)
    for part in ("train", "test"):
        before, after = getattr(whole, part), getattr(small, part)
        fours = before.pixels.double().unflatten(1, (4, 2)).unflatten(3, (4, 2)).mean((2, 4))
        assert torch.equal(after.pixels, fours.round().to(torch.uint8))
        assert torch.equal(after.labels, before.labels)
    assert (small.mean, small.std, small.sha256) == (whole.mean, whole.std, whole.sha256)


@pytest.mark.parametrize(("before", "after"), [(8, 8), (8, 5), (64, 24), (7, 3)])
def test_every_old_pixel_counts_the_same(before: int, after: int) -> None:
    """Each new pixel is a mean, and all old ones have the same share in them together."""
    weights = areas(before, after)
    torch.testing.assert_close(weights.sum(1), torch.ones(after).double())
    torch.testing.assert_close(weights.sum(0), torch.full((before,), after / before).double())


def test_a_third_of_a_pixel_counts_a_third() -> None:
    """By hand: three pixels become two."""
    torch.testing.assert_close(areas(3, 2), torch.tensor([[2, 1, 0], [0, 1, 2]]).double() / 3)


def test_images_are_not_made_larger() -> None:
    """What is not there cannot be shown."""
    with pytest.raises(UserError, match=r"data\.size=9 is more than the images have: at most 8"):
        resize(dataset(8), 9)
