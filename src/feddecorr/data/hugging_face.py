"""Hugging Face data sets on disk: their files are read here, so nothing is ever fetched or run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import Field, PositiveInt, field_validator

from feddecorr.core.files import read_json, reading
from feddecorr.core.limits import CLASSES, brief, check_classes, check_labels, read_plain
from feddecorr.core.text import parse_json
from feddecorr.data import cache
from feddecorr.data.arrow import ArrowReader
from feddecorr.data.dataset import Dataset, Images, UserData, split_off_test
from feddecorr.data.folder import TEST_NAMES, digest_of, stamp_of
from feddecorr.data.pictures import allowance_of, decode_all, is_grey
from feddecorr.errors import UserError, nearest

SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation"), "test"),
    **dict.fromkeys(("validation", "valid", "val", "dev"), "validation"),
}
"""The split of a file, by a word in its name."""

TEMPORARY = ("cache-", "tmp", ".")
"""Prefixes of temporary files of Hugging Face's library."""

Files = Mapping[str, Sequence[Path]]
"""The files of each split."""


class HuggingFace(UserData):
    """A Hugging Face data set with images and labels, on disk or in its cache: data=hf:PATH_OR_NAME.

    A path leads to the output of `save_to_disk`, or to a folder of parquet or arrow files; anything else is the name of
    a data set that `load_dataset` fetched before. Nothing is fetched here. Without a test split, every fifth image of a
    class is a test image. Decoded pixels are kept in the cache.
    """

    argument: ClassVar[str | None] = "path"

    path: Path = Field(description="its path, or its name")
    image: str | None = Field(None, description="the column of images; by default the one that holds images")
    label: str | None = Field(None, description="the column of labels; by default the one that holds classes")
    size: PositiveInt | None = Field(
        None, description="height and width to resize to; by default all images must have the same size"
    )

    @field_validator("path")
    @classmethod
    def _resolve(cls, path: Path) -> Path:
        return path.expanduser().absolute() if path.expanduser().exists() else path

    def read(self) -> Dataset:
        """Return the images, grey if all of them are."""
        files = self._find()
        name = f"hf-{digest_of([str(self.path), str(self.image), str(self.label), str(self.size)])[:16]}"
        state = digest_of([f"{split} {path} {stamp_of(path)}" for split in files for path in files[split]])
        if not cache.is_current(name, source=state):
            with ArrowReader() as tables:
                decoded = self._decode(files, tables)
            cache.store(name, decoded, source=state, private=True)
        return cache.load(name)

    def _find(self) -> dict[str, Sequence[Path]]:
        """Return the files of the training split and, if there is one, of a test split."""
        found = _splits(self.path if self.path.exists() else _fetched(str(self.path)))
        if not found:
            raise UserError(f"{self.path}: there is no parquet or arrow file in it (pictures: data=folder:PATH)")
        if "train" not in found:
            raise UserError(f"{self.path}: no split 'train'; there are: {', '.join(map(brief, found))}")
        test = next((name for name in TEST_NAMES if name in found), None)
        return {name: found[name] for name in ("train", test) if name is not None}

    def _decode(self, files: Files, tables: ArrowReader) -> Dataset:
        everything = [path for paths in files.values() for path in paths]
        features = _features(everything[0], tables)
        image = self._column(features, self.image, "Image", "images")
        label = self._column(features, self.label, "ClassLabel", "labels")
        names = features[label].get("names")
        with reading(everything[0]):
            check_classes(len(names or []))
        allowance = allowance_of(sum(path.stat().st_size for path in everything))
        grey = all(is_grey(where, content) for where, content in self._pictures(tables, everything, image))
        found = []
        for paths in files.values():
            labels = _labels(tables, paths, label, CLASSES if names is None else len(names))
            pictures = self._pictures(tables, paths, image)
            pixels = decode_all(pictures, len(labels), allowance=allowance, size=self.size, grey=grey)
            found.append(Images(pixels, torch.tensor(labels)))
        if len(found) == 1:
            out, both = split_off_test(found[0].labels), found[0]
            if not bool(out.any()):
                raise UserError(f"{self.path}: a class needs at least five images to give a test image")
            found = [Images(both.pixels[chosen], both.labels[chosen]) for chosen in (~out, out)]
        if names is None:
            names = range(1 + max(int(images.labels.max()) for images in found))
        return Dataset.of(found[0], found[1], tuple(map(str, names)))

    def _column(self, features: Mapping[str, Any], asked: str | None, kind: str, what: str) -> str:
        if asked is not None:
            if asked not in features:
                raise UserError(f"{self.path}: no column '{asked}': {brief(nearest(asked, features))}")
            return asked
        found = [name for name, feature in features.items() if feature.get("_type") == kind]
        if len(found) != 1 and kind == "ClassLabel":
            found = [name for name in ("label", "labels", "fine_label") if name in features][:1]
        if len(found) != 1:
            option = "image" if kind == "Image" else "label"
            there = brief(", ".join(features))
            raise UserError(f"{self.path}: {len(found)} columns hold {what}; name one by data.{option}: {there}")
        return found[0]

    def _pictures(self, tables: ArrowReader, paths: Iterable[Path], image: str) -> Iterator[tuple[str, bytes]]:
        """Yield each picture with its location: its bytes, or those of a file inside the data set's folder."""
        for path in paths:
            for row, (picture,) in enumerate(tables.rows(path, [image]), start=1):
                where = f"{path}: row {row}"
                content, place = (
                    (picture.get("bytes"), picture.get("path")) if isinstance(picture, dict) else (None, None)
                )
                if not isinstance(content, bytes):
                    if not isinstance(place, str):
                        raise UserError(f"{where} has no picture in '{image}'")
                    content = self._own_file(where, place)
                yield where, content

    def _own_file(self, where: str, place: str) -> bytes:
        file = Path(place)
        if "://" in place or "\0" in place or not file.resolve().is_relative_to(self.path.resolve()):
            raise UserError(
                f"{where}: its picture lies at '{brief(place)}', and only pictures in the data set itself are read"
            )
        return read_plain(file)


def _splits(root: Path) -> Files:
    """Return the files of each split below a folder."""
    if (root / "dataset_dict.json").is_file():
        with reading(root / "dataset_dict.json"):
            names = [_plain(name) for name in read_json(root / "dataset_dict.json")["splits"]]
        return {name: _saved(root / name) for name in names}
    if (root / "state.json").is_file():
        return {"train": _saved(root)}
    files = [
        path
        for path in sorted((*root.rglob("*.parquet"), *root.rglob("*.arrow")))
        if path.is_file() and not path.name.startswith(TEMPORARY)
    ]
    said = {path: _split_of(path.relative_to(root)) for path in files}
    if not any(said.values()):
        return {"train": files} if files else {}
    return {
        name: [path for path in files if said[path] == name]
        for name in dict.fromkeys(SPLITS.values())
        if name in said.values()
    }


def _split_of(path: Path) -> str | None:
    """Return a file's split, by the last word in its name that says so."""
    words = re.split(r"[^a-z]+", path.with_suffix("").as_posix().lower())
    return next((SPLITS[word] for word in reversed(words) if word in SPLITS), None)


def _saved(folder: Path) -> list[Path]:
    """Return the files that `save_to_disk` wrote into a folder."""
    file = folder / "state.json"
    stored = read_json(file)
    with reading(file):
        found = [folder / _plain(entry["filename"]) for entry in stored["_data_files"]]
        if stored.get("_indices_data_files"):
            raise UserError("it leaves rows out: save it again with 'save_to_disk'")
    for path in found:
        if not path.is_file():
            raise UserError(f"there is no file {path}, which {file} names")
    return found


def _plain(name: object) -> str:
    if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or "\\" in name or "\0" in name:
        raise UserError(f"'{brief(name)}' is not the name of a file next to it")
    return name


def _fetched(name: str) -> Path:
    """Return the folder in which Hugging Face's library caches a data set; it lower-cases names."""
    home = Path(os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    root = Path(os.environ.get("HF_DATASETS_CACHE") or home / "datasets").expanduser()

    def plain(word: str) -> str:
        return word.lower().replace("/", "").replace("_", "")

    folders = [folder for folder in root.iterdir() if plain(folder.name) == plain(name)] if root.is_dir() else []
    kept = sorted({file.parent for folder in folders for file in folder.rglob("*.arrow")})
    if not kept:
        raise UserError(f"there is no data set {name}: neither a folder, nor in {root} (load_dataset fetches it)")
    if len(kept) > 1:
        raise UserError(f"there are several data sets {name}; give the folder of one: {', '.join(map(str, kept))}")
    return kept[0]


def _features(path: Path, tables: ArrowReader) -> dict[str, dict[str, Any]]:
    """Return the metadata of each column by Hugging Face's library or, without any, whether it holds pictures."""
    columns, note = tables.columns(path)
    noted: Any = {}
    with reading(path):
        if note:
            noted = parse_json(note)["info"].get("features") or {}
        found = {}
        for name, parts in columns.items():
            guess = {"_type": "Image"} if parts == {"bytes", "path"} else {}
            known = noted.get(name)
            found[name] = known if isinstance(known, dict) else guess
            if not isinstance(found[name].get("names") or [], list):
                raise UserError(f"the names of the classes of '{brief(name)}' are not a list")
    return found


def _labels(tables: ArrowReader, paths: Iterable[Path], label: str, classes: int) -> list[int]:
    """Return the labels of all rows, each the number of a class."""
    found: list[int] = []
    for path in paths:
        values = [value for (value,) in tables.rows(path, [label])]
        for row, value in enumerate(values, start=1):
            if type(value) not in (int, bool):
                said = "missing" if value is None else f"{brief(value)}, not a whole number"
                raise UserError(f"{path}: row {row}: the label is {said}")
        with reading(path):
            check_labels(np.array(values, object), classes=classes)
        found += map(int, values)
    return found
