from pathlib import Path

import numpy as np
import pytest
import torch
from copies import Files, picture, tinyimagenet, write_folder, write_tar, write_zip

from feddecorr.data.tinyimagenet import TinyImageNet
from feddecorr.errors import UserError

RECIPE = TinyImageNet.recipe


def test_labels_of_validation_images_come_from_the_annotations(tmp_path: Path) -> None:
    """The colour of each image tells its class, so the labels can be checked by eye, so to speak."""
    dataset = RECIPE.read(write_folder(tmp_path, tinyimagenet()))
    assert dataset.test.labels.tolist() == [2, 0, 1, 2, 0, 1]
    for images in (dataset.train, dataset.test):
        shades = images.pixels.float().mean((1, 2, 3))
        assert ((shades - 60) / 60).floor().int().tolist() == images.labels.tolist()


def test_classes_are_numbered_in_the_order_of_their_names_and_named_by_words(tmp_path: Path) -> None:
    """Two classes of the same word are distinguished by their WordNet numbers."""
    dataset = RECIPE.read(write_folder(tmp_path, tinyimagenet()))
    assert dataset.classes == ("egyptian cat", "crane (n02)", "crane (n03)")
    assert dataset.train.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    shades = dataset.train.pixels.float().mean((1, 2, 3))
    assert (shades[1:3] > shades[:2]).all()


def test_grey_images_become_rgb(tmp_path: Path) -> None:
    dataset = RECIPE.read(write_folder(tmp_path, tinyimagenet()))
    grey = dataset.train.pixels[dataset.train.labels == 1]
    assert grey.shape == (3, 64, 64, 3)
    assert torch.equal(grey[..., 0], grey[..., 2])


def test_a_zip_and_a_tar_are_read_like_the_folder(tmp_path: Path) -> None:
    folder = RECIPE.read(write_folder(tmp_path / "folder", tinyimagenet()))
    inner = RECIPE.read(tmp_path / "folder" / "tiny-imagenet-200")
    zipped = RECIPE.read(write_zip(tmp_path / "a.zip", tinyimagenet()))
    packed = RECIPE.read(write_tar(tmp_path / "a.tgz", tinyimagenet()))
    for other in (inner, zipped, packed):
        assert torch.equal(other.train.pixels, folder.train.pixels)
        assert torch.equal(other.test.labels, folder.test.labels)


def test_numbers_are_sorted_as_numbers(tmp_path: Path) -> None:
    files = tinyimagenet(train=11)
    shades = RECIPE.read(write_folder(tmp_path, files)).train.pixels[:11].float().mean((1, 2, 3))
    assert shades.tolist() == sorted(shades.tolist())


ROOT = "tiny-imagenet-200"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({f"{ROOT}/wnids.txt": None}, r"wnids\.txt not found"),
        ({f"{ROOT}/val/val_annotations.txt": None}, r"val_annotations\.txt not found"),
        ({f"{ROOT}/val/images/val_3.JPEG": None}, r"val_3\.JPEG has a label, but is not in val/images"),
        ({f"{ROOT}/val/images/val_9.JPEG": b""}, r"val_9\.JPEG: no label in val_annotations\.txt"),
        ({f"{ROOT}/val/val_annotations.txt": b"val_0.JPEG\tn99"}, r"'val_0\.JPEG n99' names no class"),
        ({f"{ROOT}/val/val_annotations.txt": b"val_0.JPEG"}, r"'val_0\.JPEG' names no class"),
        ({f"{ROOT}/train/n09/images/n09_0.JPEG": b""}, r"n09_0\.JPEG: its class is not in wnids\.txt"),
        ({f"{ROOT}/train/n01/images/n01_1.JPEG": b"text"}, r"n01_1\.JPEG: not a picture, or cut off \(4 bytes\)"),
        (
            {f"{ROOT}/train/n01/images/n01_1.JPEG": picture(np.zeros((64, 32, 3), np.uint8), "JPEG")},
            r"n01_1\.JPEG: 32×64 pixels, expected 64×64",
        ),
        (
            {f"{ROOT}/train/n01/images/n01_1.JPEG": tinyimagenet()[f"{ROOT}/train/n01/images/n01_1.JPEG"][:-40]},
            r"n01_1\.JPEG: not a picture, or cut off",
        ),
    ],
)
def test_a_wrong_file_is_named_with_what_was_expected(
    change: dict[str, bytes | None], problem: str, tmp_path: Path
) -> None:
    files: Files = {name: content for name, content in (tinyimagenet() | change).items() if content is not None}
    with pytest.raises(UserError, match=problem):
        RECIPE.read(write_folder(tmp_path, files))


def test_the_whole_set_has_500_and_50_images_of_each_of_200_classes(tmp_path: Path) -> None:
    dataset = RECIPE.read(write_folder(tmp_path, tinyimagenet()))
    assert RECIPE.problems(dataset) == ["9 of 100000 training images and 6 of 10000 test images"]
    assert list(RECIPE.check(dataset)) == [
        "3 classes of 3 to 3 training images, expected 200 of 500",
        "3 classes of 2 to 2 test images, expected 200 of 50",
    ]
