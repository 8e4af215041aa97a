"""Small data sets in the official layouts of the large ones."""

from __future__ import annotations

import gzip
import io
import json
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Files = dict[str, bytes]


def python2_pickle(value: Any) -> bytes:
    """Return the bytes in which Python 2 would pickle the value by protocol 2."""
    return b"\x80\x02" + _opcodes(value) + b"."


def _opcodes(value: Any) -> bytes:
    for kind, write in _WRITERS.items():
        if isinstance(value, kind):
            return write(value)
    raise TypeError(f"{type(value)} is not needed here")


def _array(value: NDArray[np.uint8]) -> bytes:
    empty = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n" + _opcodes((0,)) + _opcodes("b") + b"tR"
    dtype = b"cnumpy\ndtype\n" + _opcodes((value.dtype.str.lstrip("|<"), 0, 1)) + b"R"
    dtype += _opcodes((3, "|", None, None, None, -1, -1, 0)) + b"b"
    state = b"(" + _opcodes(1) + _opcodes(value.shape) + dtype + b"\x89" + _opcodes(value.tobytes()) + b"t"
    return empty + state + b"b"


_WRITERS: dict[type, Callable[[Any], bytes]] = {
    dict: lambda value: b"}(" + b"".join(_opcodes(key) + _opcodes(item) for key, item in value.items()) + b"u",
    list: lambda value: b"](" + b"".join(map(_opcodes, value)) + b"e",
    tuple: lambda value: b"(" + b"".join(map(_opcodes, value)) + b"t",
    bytes: lambda value: b"T" + struct.pack("<I", len(value)) + value,
    str: lambda value: _opcodes(value.encode()),
    int: lambda value: b"J" + struct.pack("<i", value),
    type(None): lambda _: b"N",
    np.ndarray: _array,
}


def random_rows(count: int, classes: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return images as CIFAR lays them out (rows of red, green and blue planes) and their labels."""
    stream = np.random.default_rng(seed)
    return stream.integers(0, 256, (count, 3072), dtype=np.uint8), (np.arange(count) % classes).astype(np.uint8)


CIFAR10_PARTS = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]


def cifar10_rows(count: int = 10) -> dict[str, tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
    """Return the images and labels of each batch."""
    return {name: random_rows(count, 10, seed) for seed, name in enumerate(CIFAR10_PARTS)}


def cifar10_python(count: int = 10) -> Files:
    """Return the pickled layout."""
    return {
        f"cifar-10-batches-py/{name}": python2_pickle(
            {"batch_label": "some", "labels": labels.tolist(), "data": pixels, "filenames": ["a.png"] * count}
        )
        for name, (pixels, labels) in cifar10_rows(count).items()
    }


def cifar10_binary(count: int = 10) -> Files:
    """Return the layout of records."""
    return {
        f"cifar-10-batches-bin/{name}.bin": np.concatenate([labels[:, np.newaxis], pixels], axis=1).tobytes()
        for name, (pixels, labels) in cifar10_rows(count).items()
    }


def cifar10_sheets(count: int = 10) -> Files:
    """Return the layout of PNG sheets with an image in each row."""
    rows = cifar10_rows(count)
    files = {
        f"package/{name}.png": picture(pixels.reshape(-1, 3, 1024).transpose(0, 2, 1), "PNG")
        for name, (pixels, _) in rows.items()
    }
    train = np.concatenate([rows[name][1] for name in CIFAR10_PARTS[:5]]).tolist()
    files["package/train_lables.json"] = json.dumps(train).encode()
    files["package/test_lables.json"] = json.dumps(rows["test_batch"][1].tolist()).encode()
    return files


def cifar100_python(count: int = 200) -> Files:
    """Return the pickled layout; coarse labels are there, but not read."""
    files = {}
    for seed, name in enumerate(("train", "test")):
        pixels, labels = random_rows(count, 100, seed)
        batch = {"fine_labels": labels.tolist(), "coarse_labels": [0] * count, "data": pixels}
        files[f"cifar-100-python/{name}"] = python2_pickle(batch)
    files["cifar-100-python/meta"] = python2_pickle({"fine_label_names": ["apple"]})
    return files


def idx(values: NDArray[np.uint8]) -> bytes:
    """Return an idx file."""
    return struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.tobytes()


def mnist(count: int = 20, *, packed: bool = False) -> Files:
    """Return the four idx files, packed or not."""
    files = {}
    stream = np.random.default_rng(0)
    for part, size in (("train", 2 * count), ("t10k", count)):
        files[f"{part}-images-idx3-ubyte"] = idx(stream.integers(0, 256, (size, 28, 28), dtype=np.uint8))
        files[f"{part}-labels-idx1-ubyte"] = idx((np.arange(size) % 10).astype(np.uint8))
    return {f"{name}.gz": gzip.compress(content) for name, content in files.items()} if packed else files


WNIDS = ("n03", "n01", "n02")
GREY_WNID = "n02"


def tinyimagenet(train: int = 3) -> Files:
    """Return three classes, in an order that is not alphabetical, of which one is grey; two validation images each."""
    root = "tiny-imagenet-200"
    files = {
        f"{root}/wnids.txt": "\n".join(WNIDS).encode(),
        f"{root}/words.txt": b"n01\tegyptian cat\nn02\tcrane, bird\nn03\tcrane, machine\nn04\tunused\n",
        f"{root}/test/images/test_0.JPEG": b"not needed, and not read",
        f"{root}/train/n01/n01_boxes.txt": b"not needed, and not read",
    }
    rows = []
    for place, wnid in enumerate(WNIDS):
        for number in range(train):
            files[f"{root}/train/{wnid}/images/{wnid}_{number}.JPEG"] = _plain_jpeg(wnid, 5 * number)
        for number in (place, place + 3):
            files[f"{root}/val/images/val_{number}.JPEG"] = _plain_jpeg(wnid, 5)
            rows.append((number, f"val_{number}.JPEG\t{wnid}\t0\t0\t63\t63"))
    files[f"{root}/val/val_annotations.txt"] = "\n".join(row for _, row in sorted(rows)).encode()
    return files


def _plain_jpeg(wnid: str, shade: int) -> bytes:
    """Return an image of one colour, which tells its class."""
    value = 60 * int(wnid[1:]) + shade
    return picture(np.full((64, 64) if wnid == GREY_WNID else (64, 64, 3), value, dtype=np.uint8), "JPEG")


def picture(values: NDArray[np.uint8], form: str) -> bytes:
    """Return a picture file."""
    stream = io.BytesIO()
    Image.fromarray(values).save(stream, form, quality=95)
    return stream.getvalue()


def write_folder(root: Path, files: Mapping[str, bytes]) -> Path:
    """Lay the files out below a folder."""
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def write_tar(path: Path, files: Mapping[str, bytes], compression: str = "gz") -> Path:
    """Pack the files into a tar."""
    with tarfile.open(path, f"w:{compression}") as archive:  # type: ignore[call-overload]  # a literal by parts
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def write_zip(path: Path, files: Mapping[str, bytes]) -> Path:
    """Pack the files into a zip."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


class Server:
    """A web server on this machine, which may break off its answers."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = dict(files)
        self.ranges = True
        self.break_after: list[int] = []
        """How many bytes to send before breaking off, for each of the next requests."""
        self.requests: list[tuple[str, str | None]] = []
        self.url = ""


@contextmanager
def serve(files: Mapping[str, bytes]) -> Iterator[Server]:
    """Serve files by name from 127.0.0.1."""
    state = Server(files)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name, asked = self.path.lstrip("/"), self.headers.get("Range")
            state.requests.append((name, asked))
            if name not in state.files:
                self.send_error(404)
                return
            content, start = state.files[name], 0
            if asked and state.ranges:
                start = int(asked.removeprefix("bytes=").removesuffix("-"))
                if start >= len(content):
                    self.send_error(416)
                    return
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            else:
                self.send_response(200)
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            stop = state.break_after.pop(0) if state.break_after else len(content)
            self.wfile.write(content[start : start + stop])

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        state.url = f"http://127.0.0.1:{server.server_port}"
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield state
        finally:
            server.shutdown()
