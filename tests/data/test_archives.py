import gzip
import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest
from copies import write_folder, write_tar, write_zip

from feddecorr.data import archives as unpack
from feddecorr.data.archives import collect, gunzip
from feddecorr.errors import UserError

FILES = {"set/a.txt": b"a" * 3000, "set/deep/b.bin": bytes(range(256)), "set/c.not": b"unwanted"}


def wanted(path: str) -> bool:
    return not path.endswith(".not")


def test_a_folder_and_all_archives_of_it_hold_the_same(tmp_path: Path) -> None:
    copies = [
        write_folder(tmp_path / "folder", FILES),
        write_tar(tmp_path / "plain.tar", FILES, ""),
        write_tar(tmp_path / "a.tar.gz", FILES, "gz"),
        write_tar(tmp_path / "a.tar.xz", FILES, "xz"),
        write_tar(tmp_path / "a.tar.bz2", FILES, "bz2"),
        write_zip(tmp_path / "a.zip", FILES),
    ]
    for copy in copies:
        assert collect(copy, wanted) == {name: content for name, content in FILES.items() if wanted(name)}


EVIL_NAMES = ["../evil", "a/../../evil", "/evil", "\\evil", "C:\\evil", "..\\evil"]


@pytest.mark.parametrize("name", EVIL_NAMES)
def test_names_that_lead_outside_are_refused(name: str, tmp_path: Path) -> None:
    """Even where nothing is written: such an archive is nobody's official copy."""
    for archive in (write_tar(tmp_path / "a.tgz", {name: b""}), write_zip(tmp_path / "a.zip", {name: b""})):
        with pytest.raises(UserError, match="outside the archive's own folder"):
            collect(archive, wanted)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_a_tar_are_refused(kind: bytes, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        member = tarfile.TarInfo("set/link")
        member.type, member.linkname = kind, "/etc/passwd"
        archive.addfile(member)
    with pytest.raises(UserError, match="'set/link' is a sparse file, a link or a device"):
        collect(tmp_path / "a.tar", wanted)


def test_links_in_a_zip_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        member = zipfile.ZipInfo("set/link")
        member.external_attr = 0o120777 << 16
        archive.writestr(member, "/etc/passwd")
    with pytest.raises(UserError, match="is a sparse file, a link or a device"):
        collect(tmp_path / "a.zip", wanted)


def test_archives_that_unpack_to_too_much_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large file, many files, much in all, and a header that is itself the bomb."""
    monkeypatch.setattr(unpack, "MEMBER", 1 << 20)
    monkeypatch.setattr(unpack, "TOTAL", 4 << 20)
    monkeypatch.setattr(unpack, "MEMBERS", 10)
    large, many = {"large": bytes(2 << 20)}, {f"{number}": b"" for number in range(11)}
    much = {f"{number}.not": bytes(1 << 20) for number in range(6)}
    for files, problem in ((large, "more than 1,048,576"), (many, "more than 10 files"), (much, "more than 4,194,304")):
        for archive in (write_tar(tmp_path / "a.tgz", files), write_zip(tmp_path / "a.zip", files)):
            with pytest.raises(UserError, match=problem):
                collect(archive, wanted)
    member = tarfile.TarInfo("long")
    member.type, member.size = tarfile.GNUTYPE_LONGNAME, 6 << 20
    with tarfile.open(tmp_path / "b.tgz", "w:gz") as bomb:
        bomb.addfile(member, io.BytesIO(bytes(6 << 20)))
    with pytest.raises(UserError, match="more than 4,194,304"):
        collect(tmp_path / "b.tgz", wanted)
    with pytest.raises(UserError, match="larger than"):
        collect(write_folder(tmp_path / "folder", large), wanted)


@pytest.mark.parametrize("form", ["gz", "xz", "bz2", "", "zip"])
def test_a_cut_off_archive_is_refused_with_its_name_and_size(form: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    whole = write_zip(path, FILES) if form == "zip" else write_tar(path, FILES, form)
    content = whole.read_bytes()
    for length in (len(content) // 3, len(content) // 2):
        path.write_bytes(content[:length])
        with pytest.raises(UserError, match=f"{path}: not a readable tar or zip, or cut off \\({length:,} bytes\\)"):
            collect(path, wanted)


def test_what_is_no_archive_or_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file or folder"):
        collect(tmp_path / "missing", wanted)
    (tmp_path / "text").write_text("hello")
    with pytest.raises(UserError, match="not a readable tar or zip"):
        collect(tmp_path / "text", wanted)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.tar")
    with pytest.raises(UserError, match="is not a file"):
        collect(tmp_path / "a.tar", wanted)


def test_a_gz_file_that_is_broken_or_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = gzip.compress(bytes(100_000))
    assert gunzip("a.gz", packed) == bytes(100_000)
    for broken in (packed[:-3], b"text"):
        with pytest.raises(UserError, match=r"a\.gz: not a gz file, or cut off"):
            gunzip("a.gz", broken)
    monkeypatch.setattr(unpack, "MEMBER", 1000)
    with pytest.raises(UserError, match="more than 1,000 bytes"):
        gunzip("a.gz", packed)
