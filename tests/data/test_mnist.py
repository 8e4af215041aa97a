import gzip
from pathlib import Path

import numpy as np
import pytest
import torch
from copies import Files, idx, mnist, write_folder, write_tar

from feddecorr.data.mnist import FashionMnist, Mnist, read_idx, write_idx
from feddecorr.errors import UserError


def test_idx_files_are_read_packed_or_not(tmp_path: Path) -> None:
    plain = Mnist.recipe.read(write_folder(tmp_path / "a", mnist()))
    packed = Mnist.recipe.read(write_folder(tmp_path / "b", mnist(packed=True)))
    both = Mnist.recipe.read(write_folder(tmp_path / "c", {**mnist(packed=True), **mnist()}))
    archive = Mnist.recipe.read(write_tar(tmp_path / "d.tgz", {f"package/data/{k}": v for k, v in mnist().items()}))
    content = np.frombuffer(mnist()["train-images-idx3-ubyte"], dtype=np.uint8, offset=16)
    assert plain.train.pixels.shape == (40, 28, 28, 1)
    assert plain.train.pixels.flatten().tolist() == content.tolist()
    assert plain.test.labels.tolist() == [*range(10)] * 2
    for other in (packed, both, archive):
        assert torch.equal(other.train.pixels, plain.train.pixels)
        assert torch.equal(other.test.labels, plain.test.labels)


def test_writing_is_the_inverse_of_reading() -> None:
    values = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    assert write_idx(values) == idx(values)
    np.testing.assert_array_equal(read_idx("a", write_idx(values), 3), values)


def test_mnist_and_fashion_mnist_differ_in_names_and_digests_only(tmp_path: Path) -> None:
    digits, clothes = (kind.recipe.read(write_folder(tmp_path, mnist())) for kind in (Mnist, FashionMnist))
    assert torch.equal(digits.train.pixels, clothes.train.pixels)
    assert digits.classes[9] == "9"
    assert clothes.classes[9] == "Ankle boot"
    found, other = (list(kind.recipe.check(digits)) for kind in (Mnist, FashionMnist))
    assert len(found) == len(other) == 4
    assert found[0].startswith("train-images-idx3-ubyte has md5")
    assert found[0].endswith("expected 6bbc9ace898e44ae57da46a324031adb")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"t10k-labels-idx1-ubyte": b""}, "t10k-labels-idx1-ubyte: begins with nothing, expected 00000801"),
        ({"t10k-labels-idx1-ubyte": bytes.fromhex("0000080100")}, "begins with 00000801"),
        (
            {"train-images-idx3-ubyte": mnist()["train-images-idx3-ubyte"][:-5]},
            "train-images-idx3-ubyte: 31,371 bytes, expected 31,376",
        ),
        (
            {"train-images-idx3-ubyte": bytes.fromhex("00000803ffffffffffffffffffffffff")},
            r"16 bytes, expected 79,228,162,458,924,105,385,300,197,391 ",
        ),
        ({"train-labels-idx1-ubyte": idx(np.zeros(39, np.uint8))}, "holds 40 images, but .* holds 39 labels"),
        ({"train-labels-idx1-ubyte": idx(np.full(40, 10, np.uint8))}, "a label is 10, expected 0 to 9"),
    ],
)
def test_a_wrong_file_is_named_with_what_was_expected(change: Files, problem: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=problem):
        Mnist.recipe.read(write_folder(tmp_path, mnist() | change))


def test_a_cut_off_gz_is_named(tmp_path: Path) -> None:
    files = mnist(packed=True)
    files["t10k-images-idx3-ubyte.gz"] = gzip.compress(bytes(100))[:-9]
    with pytest.raises(UserError, match=r"t10k-images-idx3-ubyte\.gz: not a gz file, or cut off"):
        Mnist.recipe.read(write_folder(tmp_path, files))


def test_two_copies_in_one_folder_are_not_mixed_up(tmp_path: Path) -> None:
    write_folder(tmp_path / "MNIST/raw", mnist())
    write_folder(tmp_path / "FashionMNIST/raw", mnist())
    with pytest.raises(UserError, match="have the same name: take the folder of one of them"):
        Mnist.recipe.read(tmp_path)
