import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from copies import Server, serve

from feddecorr.data import download as downloading
from feddecorr.data.download import Remote, download
from feddecorr.errors import RunError

CONTENT = bytes(range(256)) * 4000
Seen = list[tuple[str, int, int]]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Serve one file."""
    monkeypatch.setattr(downloading, "PAUSE", 0.0)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serve({"file.tar.gz": CONTENT}) as state:
        yield state


def remote(server: Server, *, md5: str | None = None, size: int = len(CONTENT), others: tuple[str, ...] = ()) -> Remote:
    digest = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()
    return Remote((*others, f"{server.url}/file.tar.gz"), size, md5 or digest)


def quiet(*_: object) -> None:
    """Tell nobody."""


def test_a_file_is_downloaded_once_with_progress_up_to_its_size(server: Server, tmp_path: Path) -> None:
    seen: Seen = []
    path = download(remote(server), tmp_path, lambda *reported: seen.append(reported))
    assert path.read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["file.tar.gz"]
    assert seen[-1] == ("downloading file.tar.gz", len(CONTENT), len(CONTENT))
    download(remote(server), tmp_path, quiet)
    assert len(server.requests) == 1


def test_a_broken_transfer_goes_on_where_it_broke_off(server: Server, tmp_path: Path) -> None:
    server.break_after = [300_000, 200_000]
    assert download(remote(server), tmp_path, quiet).read_bytes() == CONTENT
    assert [asked for _, asked in server.requests] == [None, "bytes=300000-", "bytes=500000-"]


def test_without_ranges_a_broken_transfer_begins_again(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    server.break_after = [300_000]
    assert download(remote(server), tmp_path, quiet).read_bytes() == CONTENT


def test_a_transfer_that_keeps_breaking_is_kept_for_another_day(server: Server, tmp_path: Path) -> None:
    """Nothing half-written has the name of the file, and the next call goes on."""
    server.break_after = [2000, 3000] + [0] * downloading.ATTEMPTS
    with pytest.raises(RunError, match=r"5,000 of 1,024,000 bytes, which are kept"):
        download(remote(server), tmp_path, quiet)
    assert [path.name for path in tmp_path.iterdir()] == ["file.tar.gz.part"]
    assert download(remote(server), tmp_path, quiet).read_bytes() == CONTENT
    assert server.requests[-1] == ("file.tar.gz", "bytes=5000-")


def test_a_wrong_digest_is_named_and_nothing_is_left(server: Server, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=f"has md5 {remote(server).md5}, expected {'0' * 32}"):
        download(remote(server, md5="0" * 32), tmp_path, quiet)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("difference", [-1, 1])
def test_a_wrong_size_is_named_before_anything_is_kept(difference: int, server: Server, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=f"offers 1,024,000 bytes, expected {len(CONTENT) + difference:,}"):
        download(remote(server, size=len(CONTENT) + difference), tmp_path, quiet)
    assert list(tmp_path.iterdir()) == []


def test_the_beginning_of_another_file_is_thrown_away(server: Server, tmp_path: Path) -> None:
    """The digest finds it out, and the download begins again from nothing."""
    (tmp_path / "file.tar.gz.part").write_bytes(b"something else")
    assert download(remote(server), tmp_path, quiet).read_bytes() == CONTENT
    assert [asked for _, asked in server.requests] == ["bytes=14-", None]


def test_too_long_a_beginning_is_thrown_away(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.tar.gz.part").write_bytes(CONTENT + b"more")
    assert download(remote(server), tmp_path, quiet).read_bytes() == CONTENT


def test_another_address_is_tried_when_one_has_not_got_it(server: Server, tmp_path: Path) -> None:
    mirrored = remote(server, others=(f"{server.url}/gone/file.tar.gz", "http://127.0.0.1:9/file.tar.gz"))
    assert download(mirrored, tmp_path, quiet).read_bytes() == CONTENT


def test_when_no_address_works_all_are_named(server: Server, tmp_path: Path) -> None:
    server.files.clear()
    with pytest.raises(RunError, match=r"file\.tar\.gz: HTTP Error 404.*"):
        download(remote(server), tmp_path, quiet)
