from pathlib import Path

import pytest
import torch
from small import small

from feddecorr.data import DATA
from feddecorr.data.builtin import Digits, RotatedDigits, Synthetic
from feddecorr.data.dataset import Dataset, Images, PixelSums, split_off_test
from feddecorr.errors import UserError


def random_dataset() -> Dataset:
    chance = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (50, 7, 5, 3), dtype=torch.uint8, generator=chance)
    return Dataset.of(Images(pixels, torch.arange(50) % 4), Images(pixels[:9], torch.arange(9) % 4), tuple("abcd"))


def test_normalized_training_images_have_mean_zero_and_variance_one_in_each_channel() -> None:
    dataset = random_dataset()
    floats = dataset.normalize(dataset.train.pixels)
    assert floats.shape == (50, 3, 7, 5)
    assert floats.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(floats.mean((0, 2, 3)), torch.zeros(3), atol=1e-6, rtol=0)
    torch.testing.assert_close(floats.var((0, 2, 3), correction=0), torch.ones(3))


def test_a_normalized_image_does_not_depend_on_its_batch() -> None:
    """To the last bit; and it is the textbook formula, up to rounding."""
    dataset = random_dataset()
    together = dataset.normalize(dataset.train.pixels)
    mean, std = torch.tensor(dataset.mean).view(3, 1, 1), torch.tensor(dataset.std).view(3, 1, 1)
    for row, image in enumerate(dataset.train.pixels):
        assert torch.equal(dataset.normalize(image.unsqueeze(0))[0], together[row])
        torch.testing.assert_close((image.permute(2, 0, 1).float() - mean) / std, together[row])


def test_normalizing_leaves_the_pixels_alone() -> None:
    """Also features, which are floats already."""
    dataset = random_dataset()
    for pixels in (dataset.train.pixels, dataset.train.pixels.float()):
        before = pixels.clone()
        dataset.normalize(pixels)
        assert torch.equal(pixels, before)


def test_statistics_are_those_of_the_values() -> None:
    dataset = random_dataset()
    values = dataset.train.pixels.double()
    sums = PixelSums.of(dataset.train.pixels)
    mean, std = sums.mean, sums.std
    torch.testing.assert_close(torch.tensor(mean).double(), values.mean((0, 1, 2)))
    torch.testing.assert_close(torch.tensor(std).double(), values.std((0, 1, 2), correction=0))


def test_a_part_is_balanced_and_drawn_by_the_data_sets_own_seed() -> None:
    """The run's seed draws nothing here: runs with several seeds learn from the same images."""
    part, again, other = (Digits(train=100, test=40, seed=seed).load() for seed in (1, 1, 2))
    assert torch.bincount(part.train.labels).tolist() == [10] * 10
    assert torch.bincount(part.test.labels).tolist() == [4] * 10
    assert torch.equal(part.train.pixels, again.train.pixels)
    assert not torch.equal(part.train.pixels, other.train.pixels)
    whole = {image.numpy().tobytes() for image in Digits().load().train.pixels}
    assert {image.numpy().tobytes() for image in part.train.pixels} <= whole
    assert part.mean == Digits().load().mean


def test_more_images_than_there_are_is_refused() -> None:
    with pytest.raises(UserError, match=r"data\.test=361 .* at most 360"):
        Digits(test=361).load()


def test_digits_are_those_that_were_embedded() -> None:
    dataset, problems = Digits().verify()
    assert problems == []
    assert (len(dataset.train), len(dataset.test)) == (1437, 360)


def test_a_digit_at_each_turn_is_a_class_and_all_turns_of_an_image_are_in_one_part() -> None:
    upright, (turned, problems) = Digits().load(), RotatedDigits().verify()
    assert problems == []
    assert len(turned.classes) == 40
    for images, originals in ((turned.train, upright.train), (turned.test, upright.test)):
        for turn in range(4):
            mine = slice(turn * len(originals), (turn + 1) * len(originals))
            assert torch.equal(images.labels[mine], originals.labels + 10 * turn)
            assert torch.equal(images.pixels[mine].rot90(-turn, (1, 2)), originals.pixels)
        assert len(images) == 4 * len(originals)


def test_synthetic_data_have_the_number_of_images_asked_for_in_all_classes() -> None:
    dataset = Synthetic(train=30, test=12, classes=3, size=4).load()
    assert torch.bincount(dataset.train.labels).tolist() == [10] * 3
    assert torch.bincount(dataset.test.labels).tolist() == [4] * 3


def test_every_fifth_image_of_a_class_is_split_off() -> None:
    labels = torch.tensor([0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0])
    assert split_off_test(labels).nonzero().squeeze(1).tolist() == [6, 11]


def test_a_kind_may_take_its_argument_after_a_colon(tmp_path: Path) -> None:
    """And is written down with its option's name, from which it is read again."""
    for word in (f"folder:{tmp_path}/a:b", f"npz:{tmp_path}/a.npz"):
        data = small(f"data={word}", "data.train=7").experiment.data
        name, _, path = word.partition(":")
        assert DATA.dump(data)["path"] == path
        assert DATA.name(data) == name
        assert data.train == 7
        assert DATA.parse(DATA.dump(data)) == data
    with pytest.raises(UserError, match="cannot be imported"):
        small("data=digits:folder")
