import os
import pickle
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch

from feddecorr.data import cache
from feddecorr.data.dataset import Dataset, Images, content_digest
from feddecorr.errors import RunError, UserError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the test a cache of its own."""
    monkeypatch.setenv("FEDDECORR_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


def dataset(value: int = 1) -> Dataset:
    pixels = torch.full((6, 2, 3, 3), value, dtype=torch.uint8)
    pixels[0] = 200
    return Dataset.of(Images(pixels, torch.arange(6) % 2), Images(pixels[:2].clone(), torch.arange(2)), ("a", "b"))


def test_the_environment_names_the_folder_or_else_the_platform_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDDECORR_DATA", "~/pictures")
    assert cache.cache_folder() == Path.home() / "pictures"
    monkeypatch.delenv("FEDDECORR_DATA")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache/me")
    assert cache.cache_folder() == Path("/var/cache/me/feddecorr")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.cache_folder() == Path.home() / ".cache" / "feddecorr"
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache.cache_folder() == Path.home() / "Library" / "Caches" / "feddecorr"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", "/local")
    assert cache.cache_folder() == Path("/local/feddecorr/Cache")


def test_what_was_stored_is_loaded_bit_for_bit(folder: Path) -> None:
    file = cache.store("some", dataset(), source="home")
    found, expected = cache.load("some"), dataset()
    assert [path.name for path in folder.iterdir()] == ["some.safetensors"]
    assert file == cache.stored_file("some")
    for mine, theirs in ((found.train, expected.train), (found.test, expected.test)):
        assert torch.equal(mine.pixels, theirs.pixels)
        assert torch.equal(mine.labels, theirs.labels)
    assert (found.classes, found.mean, found.std) == (expected.classes, expected.mean, expected.std)
    about = cache.describe("some")
    assert about is not None
    assert about.source == "home"
    assert about.sha256 == found.sha256 == expected.sha256


def test_no_planted_link_is_followed_where_a_cache_is_shared(folder: Path) -> None:
    folder.mkdir()
    for guess in (f".some.safetensors.{os.getpid()}", ".some.safetensors.tmp", "some.safetensors"):
        (folder / guess).symlink_to(folder.parent / "elsewhere")
    cache.store("some", dataset(), source="home")
    assert not (folder.parent / "elsewhere").exists()


def test_a_stored_file_can_be_read_by_whom_the_user_lets(tmp_path: Path) -> None:
    """A cache may be shared by all users of a machine."""
    (tmp_path / "other").touch()
    stored = cache.store("some", dataset(), source="home")
    assert stored.stat().st_mode == (tmp_path / "other").stat().st_mode


def test_the_digest_is_of_every_pixel_and_label() -> None:
    digests = {dataset().sha256}
    for change in ("train.pixels", "train.labels", "test.pixels", "test.labels"):
        changed = dataset()
        part, name = change.split(".")
        getattr(getattr(changed, part), name).flatten()[-1] += 1
        digests.add(content_digest(changed.train, changed.test))
    assert len(digests) == 5


def test_what_is_not_there_is_refused_with_the_command_that_gets_it() -> None:
    assert cache.describe("cifar10") is None
    with pytest.raises(UserError, match=r"cifar10 is not in .*: 'feddecorr data get cifar10' fetches it"):
        cache.load("cifar10")


def test_a_file_that_is_cut_off_anywhere_is_never_taken_for_whole() -> None:
    file = cache.store("some", dataset(), source="home")
    assert cache.is_current("some", source="home")
    content = file.read_bytes()
    for length in range(0, len(content), 7):
        file.write_bytes(content[:length])
        assert not cache.is_current("some", source="home")
        with pytest.raises(UserError, match=r"is damaged .*'feddecorr data get some' fetches it again"):
            cache.load("some")


def test_a_failure_while_writing_leaves_the_old_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.store("some", dataset(1), source="home")

    def fail(_: object, path: Path, __: object) -> None:
        path.write_bytes(b"half of ")
        raise OSError("no space left on device")

    monkeypatch.setattr(cache, "save_file", fail)
    with pytest.raises(UserError, match=r"no space left on device.*FEDDECORR_DATA"):
        cache.store("some", dataset(2), source="home")
    assert [path.name for path in folder.iterdir()] == ["some.safetensors"]
    assert cache.load("some").train.pixels[1].unique().tolist() == [1]


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("FEDDECORR_DATA", str(tmp_path / "file"))
    with pytest.raises(UserError, match=f"{tmp_path}/file cannot be written"):
        cache.store("some", dataset(), source="home")
    with pytest.raises(UserError, match="cannot be written"), cache.locked("some"):
        pass


def test_images_travel_between_processes_as_the_name_of_their_file() -> None:
    """No pixel is copied: all processes map the same file."""
    cache.store("some", dataset(), source="home")
    images = cache.load("some").train
    images.share()
    assert not images.pixels.is_shared()
    sent = pickle.dumps(images)
    assert len(sent) < 500
    assert torch.equal(pickle.loads(sent).pixels, images.pixels)  # noqa: S301 - made in the line above


def test_images_whose_file_was_replaced_meanwhile_are_refused() -> None:
    cache.store("some", dataset(1), source="home")
    sent = pickle.dumps(cache.load("some").train)
    cache.store("some", dataset(2), source="home")
    with pytest.raises(RunError, match="was replaced"):
        pickle.loads(sent)  # noqa: S301 - made above


def _try_to_lock(answers: object) -> None:
    try:
        with cache.locked("some"):
            answers.put("locked")  # type: ignore[attr-defined]  # a queue, whose type has no public name
    except UserError as error:
        answers.put(str(error))  # type: ignore[attr-defined]  # see above


def test_two_processes_do_not_fetch_the_same() -> None:
    context = get_context("fork")
    answers = context.SimpleQueue()
    with cache.locked("some"):
        other = context.Process(target=_try_to_lock, args=(answers,))
        other.start()
        assert answers.get() == "some is being fetched by another process"
        other.join()
