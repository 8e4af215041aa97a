import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from copies import (
    CIFAR10_PARTS,
    Files,
    cifar10_binary,
    cifar10_python,
    cifar10_rows,
    cifar10_sheets,
    cifar100_python,
    picture,
    python2_pickle,
    random_rows,
    write_folder,
    write_tar,
    write_zip,
)

from feddecorr.data.cifar import HUNDRED, SUPERCLASSES, TEN, Cifar10, Cifar100
from feddecorr.errors import UserError

TEN_RECIPE, HUNDRED_RECIPE = Cifar10.recipe, Cifar100.recipe
LAYOUTS = {"python": cifar10_python, "binary": cifar10_binary, "sheets": cifar10_sheets}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_images(layout: str, tmp_path: Path) -> None:
    """And those are the rows of planes that the files were made of."""
    dataset = TEN_RECIPE.read(write_folder(tmp_path, LAYOUTS[layout]()))
    rows = cifar10_rows()
    pixels = np.concatenate([rows[name][0] for name in CIFAR10_PARTS[:5]])
    assert dataset.train.pixels.shape == (50, 32, 32, 3)
    for row, column, channel in ((0, 0, 0), (0, 5, 1), (31, 31, 2), (7, 20, 0)):
        plane = pixels[:, 1024 * channel + 32 * row + column]
        assert dataset.train.pixels[:, row, column, channel].tolist() == plane.tolist()
    assert dataset.train.labels.tolist() == [*range(10)] * 5
    assert dataset.test.labels.dtype == torch.int64


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_official_binary_files_are_rebuilt_from_every_layout(layout: str, tmp_path: Path) -> None:
    dataset = TEN_RECIPE.read(write_folder(tmp_path, LAYOUTS[layout]()))
    rebuilt = {f"cifar-10-batches-bin/{name}": content for name, content in TEN.official(dataset)}
    assert rebuilt == cifar10_binary()


def test_cifar100_is_rebuilt_with_its_superclasses(tmp_path: Path) -> None:
    """A record is superclass, class and image; reading the records gives the same images again."""
    dataset = HUNDRED_RECIPE.read(write_folder(tmp_path / "python", cifar100_python()))
    files = dict(HUNDRED.official(dataset))
    records = np.frombuffer(files["train.bin"], dtype=np.uint8).reshape(-1, 3074)
    pixels, labels = random_rows(200, 100, seed=0)
    assert (records[:, 2:] == pixels).all()
    assert (records[:, 1] == labels).all()
    names = [list(SUPERCLASSES)[number] for number in records[:100, 0]]
    assert names[dataset.classes.index("whale")] == "aquatic_mammals"
    assert names[dataset.classes.index("tractor")] == "vehicles_2"
    again = HUNDRED_RECIPE.read(write_folder(tmp_path / "binary", files))
    assert torch.equal(again.train.pixels, dataset.train.pixels)
    assert torch.equal(again.test.labels, dataset.test.labels)


def test_cifar100_has_a_hundred_classes_in_twenty_superclasses_of_five() -> None:
    assert len(set(HUNDRED.classes)) == 100
    assert list(HUNDRED.classes) == sorted(HUNDRED.classes)
    assert list(SUPERCLASSES) == sorted(SUPERCLASSES)
    assert np.bincount(HUNDRED.superclasses).tolist() == [5] * 20


def test_archives_are_read_like_folders(tmp_path: Path) -> None:
    folder = TEN_RECIPE.read(write_folder(tmp_path / "folder", cifar10_python()))
    for archive in (
        write_tar(tmp_path / "a.tar.gz", cifar10_python()),
        write_tar(tmp_path / "a.tar.xz", cifar10_sheets(), "xz"),
        write_zip(tmp_path / "a.zip", cifar10_binary()),
    ):
        assert torch.equal(TEN_RECIPE.read(archive).train.pixels, folder.train.pixels)


def changed(files: Files, name: str, content: bytes | None) -> Files:
    """Return the files with one replaced, or left out."""
    kept = {path: old for path, old in files.items() if not path.endswith(f"/{name}")}
    return kept if content is None else kept | {f"changed/{name}": content}


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        (changed(cifar10_python(), "data_batch_3", None), "data_batch_3 not found; readable layouts are python"),
        (changed(cifar10_python(), "test_batch", b"\x80\x02}"), "test_batch: not a pickle of a data set, or cut off"),
        (changed(cifar10_python(), "test_batch", python2_pickle({"data": 1})), "test_batch: 'data' is not an array"),
        (
            changed(
                cifar10_python(),
                "test_batch",
                python2_pickle({"data": np.zeros((2, 3072), np.uint8), "labels": [1]}),
            ),
            "test_batch: expected a list of 2 labels, found 1",
        ),
        (
            changed(
                cifar10_python(),
                "test_batch",
                python2_pickle({"data": np.zeros((1, 3072), np.uint8), "labels": [10]}),
            ),
            "test_batch: a label is 10, expected 0 to 9",
        ),
        (
            changed(cifar10_binary(), "data_batch_2.bin", bytes(3072)),
            "3,072 bytes, not a multiple",
        ),
        (changed(cifar10_binary(), "data_batch_2.bin", b""), r"data_batch_2\.bin: 0 bytes"),
        (changed(cifar10_sheets(), "data_batch_5.png", b"text"), r"data_batch_5\.png: not a picture, or cut off"),
        (
            changed(cifar10_sheets(), "data_batch_5.png", picture(np.zeros((2, 9, 3), np.uint8), "PNG")),
            r"data_batch_5\.png: rows of 9 pixels, expected 1024",
        ),
        (changed(cifar10_sheets(), "train_lables.json", b"[1, 2"), r"train_lables\.json: not JSON, or cut off"),
        (changed(cifar10_sheets(), "train_lables.json", b"[1, 2]"), "expected a list of 50 labels, found 2"),
    ],
)
def test_a_wrong_file_is_named_with_what_was_expected(files: Files, problem: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=problem):
        TEN_RECIPE.read(write_folder(tmp_path, files))


def test_a_truncated_sheet_is_refused(tmp_path: Path) -> None:
    files = cifar10_sheets()
    files["package/data_batch_1.png"] = files["package/data_batch_1.png"][:-100]
    with pytest.raises(UserError, match=r"data_batch_1\.png: not a picture, or cut off"):
        TEN_RECIPE.read(write_folder(tmp_path, files))


def test_other_images_than_the_official_ones_are_found_out_by_digest(tmp_path: Path) -> None:
    """The right number of images does not suffice."""
    dataset = TEN_RECIPE.read(write_folder(tmp_path, cifar10_binary()))
    assert TEN_RECIPE.problems(dataset) == ["50 of 50000 training images and 10 of 10000 test images"]
    digest = hashlib.md5(cifar10_binary()["cifar-10-batches-bin/test_batch.bin"], usedforsecurity=False).hexdigest()
    problems = list(TEN_RECIPE.check(dataset))
    assert len(problems) == 6
    assert problems[-1] == f"test_batch.bin has md5 {digest}, expected 803d5f7f4d78ea53de84dbe85f74fb6d"
