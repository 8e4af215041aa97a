import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from feddecorr.core.files import read_json, reading, write_bytes, write_json
from feddecorr.core.paths import InnerPath
from feddecorr.errors import UserError


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what is brought to the disk, and when a name is given, in that order; random letters are left out."""
    found: list[str] = []

    def note(word: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*arguments: Any, **folders: int) -> Any:
            place = str(Path(f"/proc/self/fd/{arguments[0]}").readlink()) if word == "sync" else str(arguments[1])
            found.append(f"{word} {re.sub('[0-9a-f]{16}', '*', Path(place).name)}")
            return function(*arguments, **folders)

        return noting

    monkeypatch.setattr(os, "fsync", note("sync", os.fsync))
    monkeypatch.setattr(os, "replace", note("rename", os.replace))
    return found


def write(path: Path, content: bytes) -> None:
    """Write a file inside a folder."""
    InnerPath(path.parent, (path.name,)).write(content)


WRITERS = [write_bytes, write]


@pytest.mark.parametrize("writer", WRITERS)
def test_a_file_gets_its_name_when_its_content_is_on_the_disk_and_the_name_follows(
    tmp_path: Path, calls: list[str], writer: Callable[[Path, bytes], None]
) -> None:
    """So that after a loss of power either the old or the new content is there, whole."""
    writer(tmp_path / "a", b"content")
    (InnerPath(tmp_path) / "a").append(b" and more")
    assert calls == ["sync .a.*.tmp", "rename a", f"sync {tmp_path.name}", "sync a"]
    assert (tmp_path / "a").read_bytes() == b"content and more"


@pytest.mark.parametrize("writer", WRITERS)
def test_what_cannot_be_written_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: Callable[[Path, bytes], None]
) -> None:
    writer(tmp_path / "a", b"old")

    def refuse(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space left") as refused:
        writer(tmp_path / "a", b"new")
    assert refused.value.filename == str(tmp_path / "a")
    assert [file.name for file in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


@pytest.mark.parametrize("error", [KeyError("x"), TypeError("x"), RecursionError("x"), OSError(5, "x"), UserError("x")])
def test_whatever_is_wrong_with_a_file_names_it(error: Exception) -> None:
    with pytest.raises(UserError, match=r"^some\.json, line 7.*x"), reading(Path("some.json"), 7):
        raise error


def test_what_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a\.json cannot be written"):
        write_json(tmp_path / "a.json", {"class": "\ud800"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text", ['{"a": "\\ud800"}', '["\\uDFFF"]', "[NaN]", "-Infinity", "[1e400]", "[-1E+0999]", "9" * 400 + ".0"]
)
def test_what_is_beyond_the_standard_of_json_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(UserError, match=r"a\.json cannot be read"):
        read_json(InnerPath(tmp_path) / "a.json")


def test_a_character_of_two_halves_is_one(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('"\\ud83d\\ude00"')
    assert read_json(InnerPath(tmp_path) / "a.json") == "\N{GRINNING FACE}"
