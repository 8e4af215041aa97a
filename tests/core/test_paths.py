"""A path inside a folder leads nowhere else, whoever changes what lies on its way."""

import os
import pickle
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from feddecorr.core import paths
from feddecorr.core.paths import HeldError, InnerPath
from feddecorr.errors import UserError

DOINGS: dict[str, Callable[[InnerPath], Any]] = {
    "read": InnerPath.read,
    "write": lambda path: path.write(b"new"),
    "append": lambda path: path.append(b"new"),
    "remove": InnerPath.remove,
    "exists": InnerPath.exists,
    "hold": lambda path: path.held().__enter__(),
    "keep as": lambda path: path.keep_as(path.__class__(path.root, (*path.parts[:-1], "other"))),
    "move": lambda path: path.move_to(path.__class__(path.root, (*path.parts[:-1], "other"))),
}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file.json").write_bytes(b"old")
    return tmp_path / "outside"


@pytest.fixture
def root(tmp_path: Path) -> InnerPath:
    (tmp_path / "root" / "real").mkdir(parents=True)
    return InnerPath(tmp_path / "root")


@pytest.mark.parametrize("doing", DOINGS)
def test_no_folder_on_the_way_may_be_a_link(doing: str, root: InnerPath, outside: Path) -> None:
    (root.path / "real" / "link").symlink_to(outside)
    with pytest.raises(UserError, match="real/link is a symbolic link, not a folder"):
        DOINGS[doing](root / "real" / "link" / "file.json")
    assert [(file.name, file.read_bytes()) for file in outside.iterdir()] == [("file.json", b"old")]


@pytest.mark.parametrize("doing", DOINGS)
def test_the_file_itself_may_be_no_link(doing: str, root: InnerPath, outside: Path) -> None:
    (root.path / "file.json").symlink_to(outside / "file.json")
    with pytest.raises(UserError, match=r"file\.json is a symbolic link"):
        DOINGS[doing](root / "file.json")
    assert (outside / "file.json").read_bytes() == b"old"
    assert (root.path / "file.json").is_symlink()


@pytest.mark.parametrize("doing", DOINGS)
def test_a_pipe_is_no_file_and_is_not_waited_for(doing: str, root: InnerPath) -> None:
    os.mkfifo(root.path / "file.json")
    with pytest.raises(UserError, match=r"file\.json is a named pipe"):
        DOINGS[doing](root / "file.json")


@pytest.mark.parametrize("ending", [*paths.BOUNDS, ".txt"])
def test_what_may_be_read_may_be_written_and_no_more(
    ending: str, root: InnerPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bound holds in both directions, so that nothing is written that could not be read again."""
    monkeypatch.setattr(paths, "BOUNDS", dict.fromkeys(paths.BOUNDS, 10))
    monkeypatch.setattr(paths, "OTHER_BOUND", 10)
    file = root / f"a{ending}"
    file.write(bytes(9))
    file.append(bytes(1))
    assert file.read() == bytes(10)
    with pytest.raises(UserError, match="has 11 bytes, more than the 10"):
        file.append(bytes(1))
    with pytest.raises(UserError, match="has 11 bytes, more than the 10"):
        file.write(bytes(11))
    assert file.read() == bytes(10)
    os.truncate(file.path, 11)
    with pytest.raises(UserError, match="has 11 bytes"):
        file.read()


def test_nobody_can_guess_a_temporary_name(root: InnerPath, outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has 64 random bits; and where one were guessed, what lies there is left alone."""
    names = [paths.temporary_name("a") for _ in range(100)]
    assert len(set(names)) == 100
    assert all(re.fullmatch(r"\.a\.[0-9a-f]{16}\.tmp", name) for name in names)
    monkeypatch.setattr(paths, "temporary_name", lambda name: f".{name}.{0:016x}.tmp")
    (root.path / f".a.{0:016x}.tmp").symlink_to(outside / "file.json")
    with pytest.raises(FileExistsError):
        (root / "a").write(b"new")
    assert (outside / "file.json").read_bytes() == b"old"


def test_what_was_being_written_is_known_by_its_name(root: InnerPath) -> None:
    assert (root / paths.temporary_name("a.json")).unfinished == "a.json"
    for name in (".env", ".a.json.4711", "a.json", ".a.json.tmp", ".a.0123456789abcdeg.tmp"):
        assert (root / name).unfinished is None


def test_the_root_itself_is_the_users_word(tmp_path: Path, root: InnerPath) -> None:
    (tmp_path / "way").symlink_to(root.path)
    (InnerPath(tmp_path / "way") / "real" / "a").write(b"x")
    assert (root / "real" / "a").read() == b"x"


def test_a_tree_is_walked_without_following(root: InnerPath, outside: Path) -> None:
    for name in ("b", "a/c", "a/d/e"):
        (root.path / name).parent.mkdir(parents=True, exist_ok=True)
        (root.path / name).touch()
    assert [str(file.path.relative_to(root.path)) for file in root.tree()] == ["a/c", "a/d/e", "b"]
    (root.path / "a" / "up").symlink_to(outside)
    with pytest.raises(UserError, match="a/up is a symbolic link"):
        list(root.tree())


def test_a_path_travels_to_other_processes(root: InnerPath) -> None:
    assert pickle.loads(pickle.dumps(root / "a")) == root / "a"  # noqa: S301 - our own


def test_descriptors_are_closed_whatever_happens(root: InnerPath, outside: Path) -> None:
    (root.path / "link").symlink_to(outside)
    os.mkfifo(root.path / "pipe.json")
    (root / "a.json").write(b"x")

    def open_files() -> int:
        return len(list(Path("/dev/fd").iterdir()))

    before, chance = open_files(), random.Random(0)
    for _ in range(200):
        doing = DOINGS[chance.choice([name for name in DOINGS if name != "hold"])]
        try:
            doing(root / chance.choice(["a.json", "link", "pipe.json", "nowhere"]))
        except (UserError, OSError):
            continue
    assert open_files() == before


def test_a_lock_that_was_replaced_is_noticed(root: InnerPath) -> None:
    lock = root / ".lock"
    with lock.held() as is_there:
        assert is_there()
        with pytest.raises(HeldError, match="taken"), lock.held("taken"):
            pass
        lock.remove()
        assert not is_there()
        lock.path.touch()
        assert not is_there()
    with lock.held():
        pass


def test_a_lock_leaves_the_file_as_it_is(root: InnerPath) -> None:
    (root / ".lock").write(b"somebody's")
    with (root / ".lock").held():
        pass
    assert (root / ".lock").read() == b"somebody's"
