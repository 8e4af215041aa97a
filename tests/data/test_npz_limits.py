"""Limits hold for what is read from a file, not for what its header claims."""

import io
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from feddecorr.data.features import read_features
from feddecorr.data.npz import read_npz
from feddecorr.errors import UserError

MIB = 1 << 20


def member(array: np.ndarray, **header: object) -> bytes:
    """Return an npy file, perhaps with another header."""
    stream = io.BytesIO()
    known = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape, **header}
    np.lib.format.write_array_header_1_0(stream, known)
    return stream.getvalue() + array.tobytes()


def pack(path: Path, content: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", content)
    return path


def test_arrays_come_as_they_were_saved(tmp_path: Path) -> None:
    saved: dict[str, Any] = {
        "a": np.arange(6, dtype=np.int16).reshape(2, 3),
        "b": np.asfortranarray(np.random.default_rng(0).normal(size=(4, 5))),
        "c": np.array(["x", "yz"]),
        "d": np.zeros((0, 3)),
    }
    np.savez(tmp_path / "plain.npz", **saved)
    np.savez_compressed(tmp_path / "packed.npz", **saved)
    for name in ("plain", "packed"):
        found = read_npz(tmp_path / f"{name}.npz")
        assert found.keys() == saved.keys()
        for key, array in saved.items():
            assert found[key].dtype == array.dtype
            assert np.array_equal(found[key], array)


def test_zeros_without_end_are_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "bomb.npz", x=np.zeros(300 * MIB, np.uint8))
    assert (tmp_path / "bomb.npz").stat().st_size < MIB
    with pytest.raises(UserError, match=r"bomb\.npz: refused, for it unpacks to more than 67,108,864 bytes"):
        read_npz(tmp_path / "bomb.npz")


def test_what_a_file_holds_is_not_limited(tmp_path: Path) -> None:
    """A large file may be large: only what was packed beyond reason is refused."""
    noise = np.random.default_rng(0).integers(0, 256, 80 * MIB, dtype=np.uint8)
    np.savez(tmp_path / "large.npz", x=noise)
    assert len(read_npz(tmp_path / "large.npz")["x"]) == 80 * MIB


LIES = {
    "more than there is": (member(np.zeros(10, np.uint8), shape=(10**6,)), "10 bytes where the shape"),
    "less than there is": (member(np.zeros(5000, np.uint8), shape=(10,)), "11 bytes where the shape"),
    "beyond any size": (member(np.zeros(10, np.uint8), shape=(10**15,)), "refused, for it unpacks to more"),
    "objects": (member(np.zeros(10, np.uint8), descr="|O"), "Python objects"),
    "a header without end": (
        b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1),
        "its header claims 4,294,967,295 bytes",
    ),
    "a header of signs": (
        b"\x93NUMPY\x01\x00" + struct.pack("<H", 9000) + b"-" * 9000,
        "its header is nested too deeply",
    ),
    "no array": (b"nothing", "not an npz file of plain arrays"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_header_that_lies_is_found_out(tmp_path: Path, name: str) -> None:
    content, message = LIES[name]
    with pytest.raises(UserError, match=message):
        read_npz(pack(tmp_path / "x.npz", content))


@pytest.mark.parametrize("name", [name for name in LIES if "header" in name])
def test_so_is_that_of_a_single_array(tmp_path: Path, name: str) -> None:
    content, message = LIES[name]
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_features(tmp_path / "x.npy")


def test_a_zip_whose_sizes_lie_is_read_no_further(tmp_path: Path) -> None:
    """The directory says 100 bytes, but there are 200 MB: they are never unpacked."""
    path = pack(tmp_path / "x.npz", member(np.zeros(200 * MIB, np.uint8)))
    raw = bytearray(path.read_bytes())
    place = raw.rindex(b"PK\x01\x02")
    raw[place + 24 : place + 28] = struct.pack("<I", 100)
    path.write_bytes(raw)
    import resource  # noqa: PLC0415 - not on every platform

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError, match=r"x\.npz: "):
        read_npz(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024
