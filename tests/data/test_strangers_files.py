"""A stranger's file ends in a sentence that names it, with exit code 2, little memory, no request and no program."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import pickle
import re
import struct
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from confined import MIB, confined
from copies import picture, python2_pickle, write_folder
from made_up import over_seeds
from PIL import Image

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is limited by Linux")

LITTLE = 200 * MIB
"""Bytes that a command may take for a file of any kind below: all of them are small."""

Words = list[object]
CASES: dict[str, tuple[Callable[[Path], Words], str]] = {}


def case(message: str) -> Callable[[Callable[[Path], Words]], Callable[[Path], Words]]:
    """Enter what makes a file and returns the command that reads it, with what the sentence says."""

    def enter(make: Callable[[Path], Words]) -> Callable[[Path], Words]:
        CASES[make.__name__] = (make, message)
        return make

    return enter


# Archives and pickles


def tar_of(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz", compresslevel=6) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def from_copy(path: Path) -> Words:
    return ["data", "get", "cifar100", "--from", path, "--partial"]


@case("sparse.tar: refused, for 'train' is a sparse file, a link or a device")
def sparse_tar(folder: Path) -> Words:
    """Zeros that no byte of the archive stands for: 200 MiB each, as GNU tar writes them."""
    blocks = b""
    for name in ("train", "test", *map(str, range(40))):
        member = tarfile.TarInfo(name)
        member.type = tarfile.GNUTYPE_SPARSE
        header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
        header[386:398] = header[398:410] = b"%011o\0" % 0
        header[483:495] = b"%011o\0" % (200 * MIB)
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header)
        blocks += bytes(header)
    (folder / "sparse.tar").write_bytes(blocks + bytes(1024))
    return from_copy(folder / "sparse.tar")


@case("zeros.tar.gz: refused, for it unpacks to more than")
def zeros_in_a_tar(folder: Path) -> Words:
    return from_copy(tar_of(folder / "zeros.tar.gz", {f"{n}": bytes(100 * MIB) for n in range(2)}))


@case("many.tar.xz: refused, for it unpacks to more than")
def many_members(folder: Path) -> Words:
    header = tarfile.TarInfo("empty").tobuf()
    (folder / "many.tar.xz").write_bytes(lzma.compress(header * 200_000 + bytes(1024), preset=1))
    return from_copy(folder / "many.tar.xz")


@case("zeros.zip: refused, for it unpacks to more than")
def zeros_in_a_zip(folder: Path) -> Words:
    with zipfile.ZipFile(folder / "zeros.zip", "w", zipfile.ZIP_BZIP2) as archive:
        for name in ("train", "test"):
            archive.writestr(name, bytes(150 * MIB))
    return from_copy(folder / "zeros.zip")


@case("huge.zip: refused, for 'train' unpacks to more than")
def zip64_sizes(folder: Path) -> Words:
    """Let the directory say 2⁶⁰ bytes."""
    with zipfile.ZipFile(folder / "huge.zip", "w") as archive:
        member = zipfile.ZipInfo("train")
        archive.writestr(member, b"x")
        member.file_size = 1 << 60
    return from_copy(folder / "huge.zip")


@case("train-images-idx3-ubyte.gz: refused, for it unpacks to more than")
def zeros_in_a_gz(folder: Path) -> Words:
    names = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    write_folder(folder / "mnist", dict.fromkeys((f"{name}.gz" for name in names), gzip.compress(bytes(100 * MIB))))
    return ["data", "get", "mnist", "--from", folder / "mnist"]


def cifar(folder: Path, train: bytes) -> Words:
    test = python2_pickle({"data": np.zeros((1, 3072), np.uint8), "fine_labels": [0]})
    return from_copy(tar_of(folder / "cifar.tar.gz", {"train": train, "test": test}))


def array_of(content: bytes, shape: bytes) -> bytes:
    """Return a pickle of an array, its content and shape given as commands."""
    empty = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
    dtype = b"cnumpy\ndtype\n(U\x02u1K\x00K\x01tR"
    return b"\x80\x02}U\x04data" + empty + b"(K\x01" + shape + dtype + b"\x89" + content + b"tbs."


def long(value: int) -> bytes:
    raw = pickle.encode_long(value)
    return b"\x8b" + struct.pack("<i", len(raw)) + raw


@case("train: not a pickle of a data set, or cut off .* its content is not bytes")
def bytes_of_an_int(folder: Path) -> Words:
    return cifar(folder, array_of(long(1 << 33), b"(" + long(1 << 33) + b"t"))


@case("train: not a pickle of a data set, or cut off")
def a_product_of_long_integers(folder: Path) -> Words:
    number = long(1 << (8 * MIB)) + b"q\x01"
    return cifar(folder, array_of(b"U\x01x", b"(" + number + b"h\x01" * 5000 + b"t"))


@case("train: not a pickle of a data set, or cut off .* more than [0-9,]+ commands")
def sixty_million_lists(folder: Path) -> Words:
    return cifar(folder, b"\x80\x02}U\x04data(" + b"]" * (60 * MIB) + b"ls.")


@case("train: a label is a whole number of 8,388,6[0-9]+ bits, expected 0 to 99")
def a_label_without_end(folder: Path) -> Words:
    start = python2_pickle({"data": np.zeros((1, 3072), np.uint8)})[:-1]
    return cifar(folder, start + b"U\x0bfine_labels](" + long(1 << (8 * MIB)) + b"es.")


@case("train_lables.json: not JSON")
def deep_json(folder: Path) -> Words:
    sheet = picture(np.zeros((1, 1024, 3), np.uint8), "PNG")
    sheets = {f"{name}.png": sheet for name in (*(f"data_batch_{n}" for n in range(1, 6)), "test_batch")}
    labels = {"train_lables.json": b"[" * 300_000, "test_lables.json": b"[0]"}
    write_folder(folder / "sheets", sheets | labels)
    return ["data", "get", "cifar10", "--from", folder / "sheets", "--partial"]


@case("val_annotations.txt: not text")
def an_annotation_that_is_no_text(folder: Path) -> Words:
    files = {"wnids.txt": b"n1\n", "val/val_annotations.txt": b"\xff\xfe\xff", "train/n1/images/n1_0.JPEG": b""}
    return ["data", "get", "tinyimagenet", "--from", write_folder(folder / "tiny", files)]


# Pictures


def in_a_folder(folder: Path, content: bytes, name: str = "3.png") -> Words:
    fine = picture(np.zeros((8, 8, 3), np.uint8), "PNG")
    files = {f"{kind}/{number}.png": fine for kind in ("a", "b") for number in range(5)}
    return ["data", "verify", f"folder:{write_folder(folder / 'pics', files | {f'a/{name}': content})}"]


def saved(folder: Path, rows: Sequence[object], labels: Sequence[object]) -> Words:
    """Return the command for a data set of Hugging Face, as its library saves it."""
    features = datasets.Features({"image": datasets.Image(decode=False), "label": datasets.Value("int64")})
    made = datasets.Dataset.from_dict({"image": rows, "label": labels}, features)
    made.cast_column("image", datasets.Image()).save_to_disk(str(folder / "hf"))
    return ["data", "verify", f"hf:{folder / 'hf'}"]


def noted(folder: Path, rows: Sequence[object], label: dict[str, object]) -> Words:
    """Return the command for a parquet file with the notes of that library, whatever they say."""
    note = json.dumps({"info": {"features": {"image": {"_type": "Image"}, "label": label}}})
    kinds = [("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])), ("label", pa.int64())]
    (folder / "hf").mkdir()
    table = pa.table({"image": rows, "label": [0, 1] * 5}, pa.schema(kinds, {"huggingface": note}))
    pq.write_table(table, folder / "hf" / "train.parquet")
    return ["data", "verify", f"hf:{folder / 'hf'}"]


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n(started) print\nshowpage\n%%EOF\n"


@case("3.png: not a picture")
def postscript_in_a_folder(folder: Path) -> Words:
    return in_a_folder(folder, EPS)


@case("row 3: not a picture")
def postscript_of_hugging_face(folder: Path) -> Words:
    fine = {"bytes": picture(np.zeros((8, 8, 3), np.uint8), "PNG"), "path": None}
    return saved(folder, [fine, fine, {"bytes": EPS, "path": None}] + [fine] * 9, [0, 1] * 6)


def flat_png(width: int, height: int) -> bytes:
    """Return zeros, packed as tightly as can be, row by row."""
    packer = zlib.compressobj(9)
    rows = b"".join(packer.compress(bytes(1 + width)) for _ in range(height)) + packer.flush()
    chunks = (b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0), b"IDAT" + rows, b"IEND")
    parts = (struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@case("row 1: not a picture, or cut off .*: refused, for it claims to have 13,000 × 13,000 pixels")
def a_large_picture_of_hugging_face(folder: Path) -> Words:
    return saved(folder, [{"bytes": flat_png(13_000, 13_000), "path": None}] * 10, [0, 1] * 5)


@case("refused, for it unpacks to more than .* data.size")
def many_flat_pictures_of_hugging_face(folder: Path) -> Words:
    """Each may be as large as it is, but not all of them."""
    return saved(folder, [{"bytes": flat_png(7000, 7000), "path": None}] * 60, [0, 1] * 30)


@case("refused, for it unpacks to more than .* data.size")
def many_flat_pictures_in_a_folder(folder: Path) -> Words:
    flat = flat_png(7000, 7000)
    files = {f"{kind}/{number}.png": flat for kind in ("a", "b") for number in range(30)}
    return ["data", "verify", f"folder:{write_folder(folder / 'pics', files)}"]


@case("row 2: its picture lies at 'http://127.0.0.1:9/x.png', and only pictures in the data set itself are read")
def a_picture_elsewhere(folder: Path) -> Words:
    fine = {"bytes": picture(np.zeros((8, 8, 3), np.uint8), "PNG"), "path": None}
    rows = [fine, {"bytes": None, "path": "http://127.0.0.1:9/x.png"}] + [fine] * 8
    return noted(folder, rows, {"_type": "Value"})


@case("hf: there is no parquet or arrow file in it")
def files_elsewhere(folder: Path) -> Words:
    """Let the page of a data set say where its files are."""
    page = "---\nconfigs:\n- config_name: default\n  data_files: http://127.0.0.1:9/a.parquet\n---\n"
    write_folder(folder / "hf", {"README.md": page.encode(), "a.txt": b"x"})
    return ["data", "verify", f"hf:{folder / 'hf'}"]


@case("row 2 has no picture")
def no_picture_of_hugging_face(folder: Path) -> Words:
    fine = {"bytes": picture(np.zeros((8, 8, 3), np.uint8), "PNG"), "path": None}
    return saved(folder, [fine, None] + [fine] * 8, [0, 1] * 5)


@case("row 3: the label is missing")
def no_label_of_hugging_face(folder: Path) -> Words:
    fine = {"bytes": picture(np.zeros((8, 8, 3), np.uint8), "PNG"), "path": None}
    return saved(folder, [fine] * 10, [0, 1, None, *[0] * 7])


@case("row 3: the label is -100")
def a_negative_label_of_hugging_face(folder: Path) -> Words:
    fine = {"bytes": picture(np.zeros((8, 8, 3), np.uint8), "PNG"), "path": None}
    return saved(folder, [fine] * 10, [0, 1, -100, *[0] * 7])


@case("row 10: the label is 500,000,000")
def a_large_label_of_hugging_face(folder: Path) -> Words:
    fine = {"bytes": picture(np.zeros((8, 8, 3), np.uint8), "PNG"), "path": None}
    return saved(folder, [fine] * 10, [0, 1] * 4 + [0, 500_000_000])


@case("300,000 classes")
def many_classes_of_hugging_face(folder: Path) -> Words:
    fine = {"bytes": picture(np.zeros((8, 8, 3), np.uint8), "PNG"), "path": None}
    return noted(folder, [fine] * 10, {"_type": "ClassLabel", "names": [str(name) for name in range(300_000)]})


@case("3.tif: not a picture, or cut off .*: its pixels have the mode F")
def a_float_tiff(folder: Path) -> Words:
    stream = io.BytesIO()
    Image.fromarray(np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8)).save(stream, "TIFF")
    return in_a_folder(folder, stream.getvalue(), "3.tif")


@case("3.tif: not a picture, or cut off")
def a_tile_larger_than_its_tiff(folder: Path) -> Words:
    """Write eight by eight pixels, in one tile of 20,000 by 20,000."""
    side = 20_000
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(bytes(side)) for _ in range(side)) + packer.flush()
    tags = {256: 8, 257: 8, 258: 8, 259: 8, 262: 1, 277: 1, 322: side, 323: side, 324: 0, 325: len(packed)}
    start = 8 + 2 + 12 * len(tags) + 4
    tags[324] = start
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    content = struct.pack("<2sHI", b"II", 42, 8) + struct.pack("<H", len(tags)) + entries + bytes(4) + packed
    return in_a_folder(folder, content, "3.tif")


@case("3.jpg: not a picture, or cut off .* scans")
def a_jpeg_of_many_scans(folder: Path) -> Words:
    """Let the last scan of a progressive picture come 20,000 times."""
    stream = io.BytesIO()
    Image.new("L", (2000, 2000)).save(stream, "JPEG", progressive=True)
    content = stream.getvalue()
    last = content.rindex(b"\xff\xda")
    return in_a_folder(folder, content[:last] + content[last:-2] * 20_000 + content[-2:], "3.jpg")


# Arrays, tables and labels


def own_arrays(folder: Path, labels: np.ndarray) -> Words:
    np.savez(folder / "a.npz", x=np.zeros((len(labels), 2, 2), np.uint8), y=labels)
    return ["data", "verify", f"npz:{folder / 'a.npz'}"]


@case("a.npz: y, row 20: the label is 500,000,000")
def a_label_of_half_a_billion(folder: Path) -> Words:
    return own_arrays(folder, np.array([0, 1] * 9 + [0, 500_000_000]))


@case("a.npz: y, row [0-9]+: the label is")
def many_classes(folder: Path) -> Words:
    return own_arrays(folder, np.arange(1_500_000) % 300_000)


@case("a.npz: y, row 2: the label is 18,446,744,073,709,551,615")
def a_label_beyond_its_type(folder: Path) -> Words:
    return own_arrays(folder, np.array([0, 2**64 - 1, *[1] * 8], np.uint64))


@case("t.csv: 300,000 classes")
def many_classes_in_a_table(folder: Path) -> Words:
    lines = "".join(f"c{number},0.5\n" for number in range(300_000))
    (folder / "t.csv").write_text("label,a\n" + lines)
    return learned(folder / "t.csv")


def learned(path: Path) -> Words:
    return ["run", f"data=table:{path}", "model=mlp", "clients=2", "rounds=1"]


def zeros(path: Path, rows: int) -> Path:
    """Write a table of zeros, which takes a few hundred bytes a million."""
    part = pa.table({"a": np.zeros(1_000_000), "b": np.zeros(1_000_000), "label": np.zeros(1_000_000, np.int64)})
    with pq.ParquetWriter(path, part.schema) as writer:
        for _ in range(rows // 1_000_000):
            writer.write_table(part)
    return path


@case("z.parquet: refused, for it unpacks to more than")
def zeros_as_features(folder: Path) -> Words:
    return ["diagnose", "--features", zeros(folder / "z.parquet", 20_000_000)]


@case("z.parquet: refused, for it unpacks to more than")
def zeros_as_a_table(folder: Path) -> Words:
    return learned(zeros(folder / "z.parquet", 20_000_000))


@case("z.parquet: refused, for it unpacks to more than")
def a_long_word_often(folder: Path) -> Words:
    """One label of a megabyte, a hundred thousand times."""
    names = pa.DictionaryArray.from_arrays(np.zeros(100_000, np.int32), ["x" * MIB])
    pq.write_table(pa.table({"a": np.zeros(100_000), "label": names}), folder / "z.parquet", store_schema=False)
    return learned(folder / "z.parquet")


@case("z.parquet: the column 'a' holds lists")
def lists_in_a_table(folder: Path) -> Words:
    long_list = pa.ListArray.from_arrays([0, 20_000_000], np.zeros(20_000_000, np.int8))
    pq.write_table(pa.table({"a": long_list, "label": [0]}), folder / "z.parquet")
    return learned(folder / "z.parquet")


@case("wide.npy: 1,000,000 features")
def a_wide_array(folder: Path) -> Words:
    np.save(folder / "wide.npy", np.zeros((3, 1_000_000)))
    return ["diagnose", "--features", folder / "wide.npy"]


@case("wide.csv, line 1: 1,000,000 columns")
def a_wide_csv(folder: Path) -> Words:
    (folder / "wide.csv").write_text("0.5,".join([""] * 1_000_000) + "0.5\n" + "0.25,".join([""] * 1_000_000) + "1\n")
    return ["diagnose", "--features", folder / "wide.csv"]


@case("wide.csv, line 1: 1,000,001 columns")
def a_wide_table(folder: Path) -> Words:
    names = ",".join(f"c{number}" for number in range(1_000_000))
    (folder / "wide.csv").write_text(f"label,{names}\n" + "".join(f"{n}" + ",0.5" * 1_000_000 + "\n" for n in range(2)))
    return learned(folder / "wide.csv")


def sparse_file(path: Path, shape: tuple[int, ...]) -> Path:
    """Write an npy file with a hole for its content."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
    with path.open("wb") as file:
        file.write(header.getvalue())
        file.truncate(len(header.getvalue()) + 8 * int(np.prod(shape)))
    return path


@case("holes.npy: a sample of 320,000,000 bytes is too large")
def a_row_without_end(folder: Path) -> Words:
    return ["diagnose", "--features", sparse_file(folder / "holes.npy", (3, 10, 4_000_000))]


@case("zip.npy cannot be read")
def a_zip_named_npy(folder: Path) -> Words:
    np.savez(folder / "zip.npz", np.zeros((3, 3)))
    (folder / "zip.npz").rename(folder / "zip.npy")
    return ["diagnose", "--features", folder / "zip.npy"]


def labelled(folder: Path, labels: np.ndarray, rows: int = 3) -> Words:
    np.save(folder / "z.npy", np.random.default_rng(0).normal(size=(rows, 2)))
    np.save(folder / "y.npy", labels)
    return ["diagnose", "--features", folder / "z.npy", "--labels", folder / "y.npy"]


@case("y.npy: labels are whole numbers or names of classes, but that of row 2 is inf")
def an_infinite_label(folder: Path) -> Words:
    return labelled(folder, np.array([0.0, np.inf, 1.0]))


@case("y.npy: labels are whole numbers or names of classes, but that of row 3 is 1e\\+300")
def a_label_beyond_all_numbers(folder: Path) -> Words:
    return labelled(folder, np.array([0.0, 1.0, 1e300]))


@case("y.npy: labels are one class for each sample")
def a_single_label(folder: Path) -> Words:
    return labelled(folder, np.array(5))


@case("300,000 classes")
def many_classes_of_features(folder: Path) -> Words:
    return labelled(folder, np.arange(300_000), rows=300_000)


# Weights


def weights(path: Path) -> Words:
    return ["diagnose", "--model", "mlp", "--data", "digits", "--weights", path]


def torch_file(path: Path, value: object, **options: object) -> Words:
    torch.save(value, path, **options)  # type: ignore[arg-type]  # options of its own
    return weights(path)


@case("w.pt: .*refused, for it unpacks to more than")
def an_expanded_tensor(folder: Path) -> Words:
    return torch_file(folder / "w.pt", {"a": torch.zeros(1).expand(3_000_000_000)})


@case("w.pt: .*refused, for it unpacks to more than")
def an_expanded_tensor_of_old(folder: Path) -> Words:
    return torch_file(
        folder / "w.pt", {"a": torch.zeros(1).expand(3_000_000_000)}, _use_new_zipfile_serialization=False
    )


@case("w.pt: .*refused, for it unpacks to more than")
def one_tensor_under_many_names(folder: Path) -> Words:
    large = torch.zeros(1 << 18)
    return torch_file(folder / "w.pt", {f"{number}": large for number in range(10_000)})


@case("w.pt: .*refused, for it unpacks to more than")
def packed_zeros_as_weights(folder: Path) -> Words:
    torch.save({"a": torch.zeros(50 * MIB)}, folder / "plain.pt")
    with (
        zipfile.ZipFile(folder / "plain.pt") as plain,
        zipfile.ZipFile(folder / "w.pt", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for name in plain.namelist():
            packed.writestr(name, plain.read(name))
    (folder / "plain.pt").unlink()
    return weights(folder / "w.pt")


ODD: dict[str, object] = {
    "sparse": {"a": torch.eye(3).to_sparse()},
    "on no device": {"a": torch.ones(3, device="meta")},
    "numbers for names": {1: torch.ones(3), "a": torch.ones(3)},
    "a number": 5,
    "a tensor": torch.ones(3),
    "a list": [torch.ones(3)],
    "no tensors": {"a": 1},
}


def odd(name: str) -> Callable[[Path], Words]:
    return lambda folder: torch_file(folder / "w.pt", ODD[name])


for _name in ODD:
    CASES[f"odd weights: {_name}"] = (odd(_name), "w.pt")


@case("w.pt holds a whole object .pathlib.PosixPath., which only its own code could read")
def code_in_weights(folder: Path) -> Words:
    return torch_file(folder / "w.pt", {"a": Path(folder)})


def data_pickle(path: Path, content: bytes) -> Words:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", content)
        archive.writestr("a/byteorder", "little")
        archive.writestr("a/version", "3\n")
    return weights(path)


@case("w.pt holds no weights that can be read")
def bytes_without_end_in_weights(folder: Path) -> Words:
    """One string of a megabyte, encoded again and again."""
    start = (
        b"\x80\x02}X" + struct.pack("<I", MIB) + b"x" * MIB + b"q\x01X\x06\x00\x00\x00utf-32q\x02ccodecs\nencode\nq\x03"
    )
    start = start.replace(b"ccodecs", b"c_codecs")
    return data_pickle(folder / "w.pt", start + b"0h\x03h\x01h\x02\x86R" * 3000 + b".")


@case("w.pt holds no weights that can be read")
def a_key_that_takes_forever(folder: Path) -> Words:
    nested = b"K\x01q\x00" + b"h\x00h\x00\x86q\x00" * 90
    return data_pickle(folder / "w.pt", b"\x80\x02}" + nested + b"K\x01s.")


@case("w.safetensors")
def a_header_without_end(folder: Path) -> Words:
    (folder / "w.safetensors").write_bytes(struct.pack("<Q", 1 << 62) + b"{}")
    return weights(folder / "w.safetensors")


@case("w.safetensors")
def a_tensor_beyond_its_file(folder: Path) -> Words:
    header = json.dumps({"a": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}).encode()
    (folder / "w.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(16))
    return weights(folder / "w.safetensors")


# Records


@case("r.jsonl, line 1: not the record of a run .*1e400 is no number")
def a_number_beyond_all_numbers(folder: Path) -> Words:
    (run,) = over_seeds("rounds=1", [0.5])
    line = json.dumps(run.to_dict())
    place = line.index('"seconds": ') + len('"seconds": ')
    end = min(line.index(mark, place) for mark in ",}" if mark in line[place:])
    (folder / "r.jsonl").write_text(f"{line[:place]}1e400{line[end:]}\n")
    return ["table", folder / "r.jsonl"]


@case("costs.json, line 1: no JSON, or cut off")
def broken_costs(folder: Path) -> Words:
    (folder / "results").mkdir()
    (folder / "results" / "costs.json").write_text('{"ratio to plain": ')
    return ["claims", folder / "results"]


@case("costs.json cannot be read")
def deep_costs(folder: Path) -> Words:
    (folder / "results").mkdir()
    (folder / "results" / "costs.json").write_text("[" * 200_000)
    return ["claims", folder / "results"]


@case("costs.json: ")
def costs_that_are_words(folder: Path) -> Words:
    (folder / "results").mkdir()
    for name in ("ratio to plain", "ratio to FedAvg"):
        (folder / "results" / f"{name[-5:].strip()}costs.json").write_text(json.dumps({name: 5}))
    return ["claims", folder / "results"]


@case("split.json")
def a_deep_split(folder: Path) -> Words:
    (folder / "split.json").write_text("[" * 200_000)
    return ["partition", "partition=file", f"partition.path={folder / 'split.json'}"]


@pytest.mark.parametrize("name", CASES)
def test_a_strangers_file_ends_in_a_sentence(name: str, tmp_path: Path) -> None:
    make, message = CASES[name]
    words = make(tmp_path)
    found = confined(*words, memory=2048 * MIB, folder=tmp_path)
    assert "Traceback" not in found.err, found.err
    assert found.code == 2, found.err
    assert re.search(message, found.sentence), found.sentence
    assert len(found.sentence) < 600
    assert found.memory < LITTLE, f"{found.memory:,}"
