import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from feddecorr.errors import UserError
from feddecorr.files import append_bytes, exclusive, read_json, reading, write_bytes


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what is brought to the disk, and when a name is given, in that order."""
    found: list[str] = []

    def note(word: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*arguments: Any) -> Any:
            place = str(Path(f"/proc/self/fd/{arguments[0]}").readlink()) if word == "sync" else str(arguments[1])
            found.append(f"{word} {Path(place).name}")
            return function(*arguments)

        return noting

    monkeypatch.setattr(os, "fsync", note("sync", os.fsync))
    monkeypatch.setattr(Path, "replace", note("rename", Path.replace))
    return found


def test_a_file_gets_its_name_when_its_content_is_on_the_disk_and_the_name_follows(
    tmp_path: Path, calls: list[str]
) -> None:
    """So that after a loss of power either the old or the new content is there, whole."""
    write_bytes(tmp_path / "a", b"content")
    append_bytes(tmp_path / "a", b" and more")
    beside = f".a.{os.getpid()}"
    assert calls == [f"sync {beside}", "rename a", f"sync {tmp_path.name}", "sync a"]
    assert (tmp_path / "a").read_bytes() == b"content and more"


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_bytes(tmp_path / "a", b"old")

    def refuse(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space left") as refused:
        write_bytes(tmp_path / "a", b"new")
    assert refused.value.filename == str(tmp_path / "a")
    assert [file.name for file in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


@pytest.mark.parametrize("error", [KeyError("x"), TypeError("x"), RecursionError("x"), OSError(5, "x"), UserError("x")])
def test_whatever_is_wrong_with_a_file_names_it(error: Exception) -> None:
    with pytest.raises(UserError, match=r"^some\.json, line 7.*x"), reading(Path("some.json"), 7):
        raise error


def test_a_lock_that_was_replaced_is_noticed(tmp_path: Path) -> None:
    lock = tmp_path / "run" / ".lock"
    lock.parent.mkdir()
    with exclusive(lock, "held") as is_there:
        assert is_there()
        with pytest.raises(UserError, match="held"), exclusive(lock, "held"):
            pass
        lock.unlink()
        assert not is_there()
        lock.touch()
        assert not is_there()


@pytest.mark.parametrize("text", ['{"a": "\\ud800"}', '["\\uDFFF"]', "[NaN]", "-Infinity"])
def test_what_is_beyond_the_standard_of_json_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(UserError, match=r"a\.json cannot be read"):
        read_json(tmp_path / "a.json")


def test_a_character_of_two_halves_is_one(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('"\\ud83d\\ude00"')
    assert read_json(tmp_path / "a.json") == "\N{GRINNING FACE}"
