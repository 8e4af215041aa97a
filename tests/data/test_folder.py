import os
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from copies import picture, write_folder
from PIL import Image
from pydantic import ValidationError

from feddecorr.data.folder import Folder
from feddecorr.errors import UserError


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDDECORR_DATA", str(tmp_path / "cache"))


def shade(value: int, *shape: int) -> bytes:
    return picture(np.full(shape or (8, 8, 3), value, dtype=np.uint8), "PNG")


def pictures(count: int = 10) -> dict[str, bytes]:
    """Return pictures whose shade tells their class and number."""
    return {
        f"{name}/{number:02}.png": shade(100 * place + number)
        for place, name in enumerate(("cat", "dog"))
        for number in range(count)
    }


def test_each_folder_is_a_class_and_every_fifth_picture_is_for_testing(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "pics", pictures() | {"cat/notes.txt": b"no picture"})
    dataset = Folder(path=root).load()
    assert dataset.classes == ("cat", "dog")
    assert dataset.test.pixels[:, 0, 0, 0].tolist() == [4, 9, 104, 109]
    assert dataset.test.labels.tolist() == [0, 0, 1, 1]
    assert dataset.train.pixels.shape == (16, 8, 8, 3)
    assert (dataset.train.pixels[:, 0, 0, 0] // 100).tolist() == dataset.train.labels.tolist()


def test_folders_of_training_and_test_pictures_are_kept_apart(tmp_path: Path) -> None:
    files = {f"train/{name}": content for name, content in pictures(2).items()} | {"val/dog/deep/a.png": shade(150)}
    dataset = Folder(path=write_folder(tmp_path / "pics", files)).load()
    assert len(dataset.train) == 4
    assert dataset.test.labels.tolist() == [1]
    assert dataset.test.pixels.unique().tolist() == [150]


def test_grey_pictures_have_one_channel_unless_one_of_them_has_colours(tmp_path: Path) -> None:
    files = {f"{name}/{number}.png": shade(9, 8, 8) for name in "ab" for number in range(5)}
    root = write_folder(tmp_path / "pics", files)
    assert Folder(path=root).load().shape == (1, 8, 8)
    (root / "a" / "0.png").write_bytes(shade(9))
    assert Folder(path=root).load().shape == (3, 8, 8)


def test_pictures_are_decoded_once_until_a_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_folder(tmp_path / "pics", pictures())
    first = Folder(path=root).load()
    with monkeypatch.context() as patch:
        patch.setattr("feddecorr.data.folder.decode_all", None)
        assert torch.equal(Folder(path=root).load().train.pixels, first.train.pixels)
    (root / "cat" / "00.png").write_bytes(shade(77))
    assert Folder(path=root).load().train.pixels[0].unique().tolist() == [77]
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_pictures_of_different_sizes_need_a_size(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "pics", pictures() | {"dog/00.png": shade(100, 6, 12, 3)})
    with pytest.raises(UserError, match=r"00\.png: 12×6 pixels, where .*00\.png has 8×8; data\.size=8 resizes all"):
        Folder(path=root).load()
    dataset = Folder(path=root, size=4).load()
    assert dataset.shape == (3, 4, 4)
    assert dataset.train.pixels[8].unique().tolist() == [100]


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"a.png": shade(1)}, "expected a folder of pictures for each class, found none"),
        ({"a/0.png": shade(1), "b/0.png": shade(1)}, "a class needs at least five pictures"),
        (pictures() | {"cat/x.jpg": b"text"}, r"x\.jpg: not a picture"),
        (pictures() | {"cat/05.png": shade(1)[:-30]}, r"05\.png: not a picture, or cut off"),
        (
            {f"train/{name}": content for name, content in pictures(1).items()} | {"test/cow/0.png": shade(1)},
            "no training folder has this class; there are: cat, dog",
        ),
    ],
)
def test_a_wrong_folder_is_named_with_what_was_expected(files: dict[str, bytes], problem: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=problem):
        Folder(path=write_folder(tmp_path / "pics", files)).load()


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data\.path: there is no folder"):
        Folder(path=tmp_path / "none").load()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_photographs_are_turned_as_the_camera_was_held(orientation: int, tmp_path: Path) -> None:
    """EXIF says how the stored pixels lie; whoever shows the picture turns it, and so do we."""
    upright = np.zeros((8, 8), np.uint8)
    upright[:4, :2] = 255
    stored = {1: None, 2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}[orientation]
    photograph = Image.fromarray(upright)
    if stored is not None:
        photograph = photograph.transpose(Image.Transpose(stored))
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = BytesIO()
    photograph.save(content, "PNG", exif=exif)
    files = {f"{name}/{number}.png": content.getvalue() for name in ("a", "b") for number in range(5)}
    dataset = Folder(path=write_folder(tmp_path / "photographs", files)).read()
    assert np.array_equal(dataset.train.pixels[0, :, :, 0].numpy(), upright)


def test_names_that_are_no_text_are_taken_of_pictures_and_refused_of_classes(tmp_path: Path) -> None:
    """A file's name is any bytes; a class is written into records."""
    root = write_folder(tmp_path / "pics", pictures())
    plain = Folder(path=root).load()
    (root / "cat" / "03.png").rename(root / "cat" / os.fsdecode(b"03\xff\xfe.png"))
    assert Folder(path=root).load().sha256 == plain.sha256
    (root / "dog").rename(root / os.fsdecode(b"dog\xff"))
    with pytest.raises(UserError, match=r"a class is called 'dog\\udcff'.* text in UTF-8"):
        Folder(path=root).load()


def test_a_broken_picture_of_any_name_is_named(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "pics", pictures())
    (root / "cat" / os.fsdecode(b"\xff.png")).write_bytes(b"nothing")
    with pytest.raises(UserError, match="not a picture"):
        Folder(path=root).load()


def test_a_path_that_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="a path is text in UTF-8"):
        Folder(path=tmp_path / os.fsdecode(b"\xff"))


def test_hidden_files_and_folders_are_no_data(tmp_path: Path) -> None:
    """What editors and systems leave: `.ipynb_checkpoints` with copies of pictures, `._0.png` with no picture."""
    left = {f".ipynb_checkpoints/{number}.png": shade(200) for number in range(5)}
    left |= {"cat/.ipynb_checkpoints/03.png": shade(200), "dog/._03.png": b"nothing"}
    plain = Folder(path=write_folder(tmp_path / "pics", pictures())).load()
    found = Folder(path=write_folder(tmp_path / "left", pictures() | left)).load()
    assert (found.classes, found.sha256) == (plain.classes, plain.sha256)
