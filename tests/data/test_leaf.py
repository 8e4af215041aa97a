"""Data of many clients in LEAF's layout."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small import simulate, small

from feddecorr.data.leaf import Leaf
from feddecorr.errors import UserError
from feddecorr.runs.pipeline import run

Users = dict[str, tuple[list[Any], list[Any]]]


def write(folder: Path, part: str, users: Users, name: str = "a.json", other: dict[str, Any] | None = None) -> Path:
    """Write users as LEAF does."""
    content = {
        "users": list(users),
        "num_samples": [len(y) for _, y in users.values()],
        "user_data": {user: {"x": x, "y": y} for user, (x, y) in users.items()},
        **(other or {}),
    }
    (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / part / name).write_text(json.dumps(content))
    return folder


def images(count: int, seed: int, side: int = 4) -> tuple[list[Any], list[Any]]:
    stream = np.random.default_rng(seed)
    return stream.uniform(size=(count, side**2)).tolist(), [place % 2 for place in range(count)]


@pytest.fixture
def femnist(tmp_path: Path) -> Path:
    """Return a folder with three writers in two files."""
    write(tmp_path, "train", {"w2": images(5, 2), "w0": images(4, 0)}, "a.json")
    write(tmp_path, "train", {"w1": images(3, 1)}, "b.json")
    return write(tmp_path, "test", {"w9": images(4, 9)})


def test_every_image_goes_to_its_writer(femnist: Path) -> None:
    """Writers are clients in the order of their names, whichever file they are in."""
    simulation = simulate(f"data=leaf:{femnist}", "partition=given", "clients=3", "model=mlp")
    assert simulation.dataset.shape == (1, 4, 4)
    for client, (places, count) in enumerate(zip(simulation.shards.parts, (4, 3, 5), strict=True)):
        x, y = images(count, client)
        held = simulation.dataset.train.pixels[places].flatten(1).numpy()
        assert np.array_equal(held, (np.array(x, np.float32) * 255).round())
        assert simulation.dataset.train.labels[places].tolist() == y


@pytest.mark.parametrize("kind", ["images", "features", "text"])
def test_all_kinds_are_trained_on_alike_by_workers(tmp_path: Path, kind: str) -> None:
    for part, users in (("train", "ab"), ("test", "c")):
        spoken = (["to b", "o be", " be,", "t"], list("e, o"))
        write(tmp_path, part, {user: spoken if kind == "text" else images(8, ord(user)) for user in users})
    words = [f"data=leaf:{tmp_path}", f"data.kind={kind}", "model=mlp", "partition=given", "clients=2", "rounds=1"]
    one, other = (list(run(*small(*words, "training.batch=4", f"engine={name}"))) for name in ("serial", "pool"))
    assert [record.model for record in one] == [record.model for record in other]


def test_a_run_is_pinned_by_content_and_owners(femnist: Path) -> None:
    pinned = Leaf(path=femnist).pinned()
    assert pinned.load().sha256 == pinned.sha256
    write(femnist, "train", {"w2": images(5, 2), "w00": images(4, 0)}, "a.json")
    assert pinned.load().sha256 == pinned.sha256  # only a name is another, and the order is the same
    write(femnist, "train", {"w2": images(5, 2), "w7": images(4, 0)}, "a.json")
    with pytest.raises(UserError, match="has changed"):
        pinned.load()


GOOD = images(2, 0)

WRONG: list[tuple[Users, dict[str, Any], str, str]] = [
    ({"u": ([["a"] * 4], [0])}, {}, "images", r"a\.json: user_data\.u\.x\.0\.0: .*valid number.*data\.kind=images"),
    ({"u": (["ab"], ["c"])}, {}, "images", r"user_data\.u\.x\.0: .*data\.kind is one of images, features, text"),
    ({"u": ([[0.5] * 4], [-1])}, {}, "images", r"user_data\.u\.y\.0: .*greater than or equal to 0"),
    ({"u": ([[0.5] * 4], [4096])}, {}, "images", r"user_data\.u\.y\.0: .*less than 4096"),
    ({"u": ([[0.5] * 4], [10**400])}, {}, "images", r"user_data\.u\.y\.0"),
    ({"u": ([[float("nan")] * 4], [0])}, {}, "features", r"user_data\.u\.x\.0\.0: .*finite"),
    ({"u": ([[1e39] * 4], [0])}, {}, "features", "too large for float32"),
    ({"u": ([[0.5] * 5], [0])}, {}, "images", "5 numbers are no square image; data.kind=features"),
    ({"u": ([[0.5] * 3 + [7]], [0])}, {}, "images", "from 0.5 to 7, not from 0 to 1"),
    ({"u": ([[0.5] * 4, [0.5] * 3], [0, 1])}, {}, "images", r"user 'u': x\[1\] has 3 numbers, the first example has 4"),
    ({"u": ([[0.5] * 20_000], [0])}, {}, "features", "20,000 features are too many"),
    ({"u": ([[0.5] * 4], [0, 1])}, {}, "images", "user 'u' has 1 x, 2 y and num_samples 2"),
    ({"u": GOOD, "v": ([], [])}, {}, "images", "user 'v' has no example"),
    ({"u": GOOD}, {"users": ["w"]}, "images", "users, num_samples and user_data are not of the same users"),
    ({"u": GOOD}, {"user_data": None}, "images", "user_data: "),
    ({"u": (["abc"], ["de"])}, {}, "text", r"user_data\.u\.y\.0: .*at most 1 character"),
    ({"u": ([[0.5] * 4], ["a"])}, {}, "text", r"user_data\.u\.x\.0: .*valid string"),
    ({"u": ([chr(0x4E00 + place) for place in range(2000)], ["a"] * 2000)}, {}, "text", "features are too many"),
]


@pytest.mark.parametrize(("users", "other", "kind", "message"), WRONG, ids=[message for *_, message in WRONG])
def test_wrong_content_is_refused_with_its_place(
    tmp_path: Path, users: Users, other: dict[str, Any], kind: str, message: str
) -> None:
    write(tmp_path, "test", {"t": (["ab"], ["c"]) if kind == "text" else images(2, 5, side=2)})
    write(tmp_path, "train", users, other=other)
    with pytest.raises(UserError, match=message) as raised:
        Leaf.parse({"path": tmp_path, "kind": kind}).load()
    assert str(raised.value).startswith(str(tmp_path))


def test_windows_that_take_far_more_than_the_files_are_refused(tmp_path: Path) -> None:
    for part in ("train", "test"):
        write(tmp_path, part, {"u": (["ab"] * 5000, list("abcdefghij" * 500))})
    assert len(Leaf(path=tmp_path, kind="text").load().train) == 5000
    with pytest.raises(UserError, match=r"unpacks to more than .* bytes: lower data\.window"):
        Leaf(path=tmp_path, kind="text", window=1024).load()


def test_what_is_no_such_folder_is_refused(tmp_path: Path, femnist: Path) -> None:
    with pytest.raises(UserError, match=r"train: no \.json file; LEAF's layout has them"):
        Leaf(path=tmp_path / "none").load()
    write(femnist, "train", {"w2": images(5, 2)}, "c.json")
    with pytest.raises(UserError, match=r"c\.json: user 'w2' is there twice"):
        Leaf(path=femnist).load()
    (femnist / "train" / "c.json").write_text("{" * 100_000)
    with pytest.raises(UserError, match=r"c\.json: "):
        Leaf(path=femnist).load()
    (femnist / "train" / "c.json").unlink()
    os.mkfifo(femnist / "train" / "c.json")
    with pytest.raises(UserError, match=r"c\.json is not a file"):
        Leaf(path=femnist).load()


def test_kinds_that_do_not_fit_are_refused_before_any_reading() -> None:
    cases = {"": "convnet is for images", "data.augment=flip model=mlp": "augmentation is for images"}
    for words, message in cases.items():
        with pytest.raises(UserError, match=message):
            small("data=leaf:nowhere", "data.kind=text", *words.split())
