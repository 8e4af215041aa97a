from pathlib import Path
from typing import Any

import numpy as np
import pytest

from feddecorr.data.npz import Npz
from feddecorr.errors import UserError

PIXELS = np.arange(20 * 4 * 4 * 3).reshape(20, 4, 4, 3).astype(np.uint8)
LABELS = np.arange(20) % 2


def written(path: Path, **arrays: Any) -> Npz:
    np.savez(path / "a.npz", **arrays)
    return Npz(path=path / "a.npz")


@pytest.mark.parametrize(
    "names",
    [("x_train", "y_train", "x_test", "y_test"), ("train_images", "train_labels", "test_images", "test_labels")],
)
def test_arrays_become_images_by_their_names(names: tuple[str, ...], tmp_path: Path) -> None:
    arrays = dict(zip(names, (PIXELS, LABELS, PIXELS[:3, :, :, :], LABELS[:3, np.newaxis]), strict=True))
    dataset = written(tmp_path, **arrays, classes=["no", "yes"]).load()
    np.testing.assert_array_equal(dataset.train.pixels.numpy(), PIXELS)
    assert dataset.test.labels.tolist() == [0, 1, 0]
    assert dataset.classes == ("no", "yes")
    assert dataset.shape == (3, 4, 4)


def test_channels_first_and_floats_are_recognized(tmp_path: Path) -> None:
    """As PyTorch has them: the same images, to the last bit."""
    expected = written(tmp_path, x=PIXELS, y=LABELS).load()
    for x in (PIXELS.transpose(0, 3, 1, 2), PIXELS / np.float32(255), PIXELS.astype(float), PIXELS.astype(int)):
        assert written(tmp_path, x=x, y=LABELS).load().sha256 == expected.sha256


def test_labels_that_begin_at_one_are_noted(tmp_path: Path) -> None:
    assert "if labels begin at 1, subtract 1" in written(tmp_path, x=PIXELS, y=LABELS + 1).load().note
    assert not written(tmp_path, x=PIXELS, y=LABELS).load().note


def test_without_test_images_every_fifth_of_a_class_is_one(tmp_path: Path) -> None:
    dataset = written(tmp_path, x=PIXELS[..., 0], y=LABELS.astype(np.uint8)).load()
    assert (len(dataset.train), len(dataset.test)) == (16, 4)
    assert dataset.shape == (1, 4, 4)
    assert dataset.classes == ("0", "1")
    np.testing.assert_array_equal(dataset.test.pixels[..., 0].numpy(), PIXELS[[8, 9, 18, 19], :, :, 0])


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        ({"a": PIXELS}, "holds a; expected x_train, y_train, x_test, y_test or"),
        ({"x": PIXELS - 128.0, "y": LABELS}, "x is float64 from -128 to 127; expected uint8, or floats .* x = "),
        ({"x": PIXELS[:, :3, :3], "y": LABELS}, "the channels could come first or last"),
        ({"x": PIXELS[0, 0], "y": LABELS[:4]}, r"x is uint8 of shape \(4, 3\)"),
        ({"x": PIXELS, "y": LABELS[:-1]}, r"y is int64 of shape \(19,\); expected 20 whole numbers from 0 on"),
        ({"x": PIXELS, "y": LABELS - 1}, "y, row 1: the label is -1, expected 0 to"),
        ({"x": PIXELS, "y": LABELS.astype(float)}, "y is float64"),
        ({"x": PIXELS[:8], "y": LABELS[:8]}, "at least five images"),
        ({"x": PIXELS, "y": LABELS, "classes": ["one"]}, "1 names of classes, but labels up to 1"),
        ({"x": np.array([{}], dtype=object), "y": LABELS}, "not an npz file of plain arrays"),
        (
            {"x_train": PIXELS, "y_train": LABELS, "x_test": PIXELS[:, :2], "y_test": LABELS},
            r"different shapes, \(4, 4, 3\) and \(2, 4, 3\)",
        ),
    ],
)
def test_a_wrong_array_is_named_with_what_was_expected(arrays: dict[str, Any], problem: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=problem):
        written(tmp_path, **arrays).load()


def test_what_is_no_npz_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no file .*a\.npz"):
        Npz(path=tmp_path / "a.npz").load()
    for content in (b"text", b"PK\x03\x04 broken", b"\x93NUMPY"):
        (tmp_path / "a.npz").write_bytes(content)
        with pytest.raises(UserError, match=r"a\.npz: not an npz file"):
            Npz(path=tmp_path / "a.npz").load()
    np.save(tmp_path / "a.npy", PIXELS)
    with pytest.raises(UserError, match="not an npz file"):
        Npz(path=tmp_path / "a.npy").load()
