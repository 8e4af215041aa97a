"""The cache of data sets: one folder, with a file of verified pixels and labels for each."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from feddecorr.core.files import load_note, load_tensors
from feddecorr.core.paths import InnerPath, temporary_name
from feddecorr.core.registry import Config
from feddecorr.data.dataset import Dataset, Images
from feddecorr.errors import RunError, UserError

PARTS = ("train", "test")


def cache_folder() -> Path:
    """Return `FEDDECORR_DATA`, or the platform's folder for caches."""
    if named := os.environ.get("FEDDECORR_DATA"):
        return Path(named).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "feddecorr"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "feddecorr" / "Cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "feddecorr"


class CacheEntry(Config):
    """The metadata of a stored data set; `note` says how it differs from the whole, official one."""

    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    source: str
    note: str
    sha256: str


@dataclass(frozen=True)
class MappedImages(Images):
    """Memory-mapped images of the cache: all processes of the machine share the same pages.

    They are pickled as the file's name.
    """

    file: Path
    part: str
    stamp: int

    def share(self) -> None:
        """Do nothing: a mapped file is shared already."""

    def __reduce__(self) -> tuple[Any, ...]:
        return map_images, (self.file, self.part, self.stamp)


def map_images(file: Path, part: str, stamp: int | None = None) -> MappedImages:
    """Return one part of a stored data set; with a stamp, only if the file is still the same."""
    found = file.stat().st_mtime_ns
    if stamp is not None and stamp != found:
        raise RunError(f"{file} was replaced during a run")
    tensors = load_tensors(file)
    return MappedImages(tensors[f"{part}.pixels"], tensors[f"{part}.labels"], file, part, found)


def stored_file(name: str) -> Path:
    """Return the file of that data set, whether it exists or not."""
    return cache_folder() / f"{name}.safetensors"


def store(name: str, dataset: Dataset, *, source: str, private: bool = False) -> Path:
    """Write a data set to the cache atomically; a private one is readable by its owner alone."""
    file = stored_file(name)
    about = CacheEntry(
        classes=dataset.classes,
        mean=dataset.mean,
        std=dataset.std,
        source=source,
        note=dataset.note,
        sha256=dataset.sha256,
    )
    temporary = file.with_name(temporary_name(file.name))
    with _writing():
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.touch(exist_ok=False)
            mode = temporary.stat().st_mode
            save_file(dict(_tensors(dataset)), temporary, {"about": about.model_dump_json()})
            temporary.chmod(0o600 if private else mode)  # public data may be shared
            temporary.replace(file)
        finally:
            temporary.unlink(missing_ok=True)
    return file


def describe(name: str) -> CacheEntry | None:
    """Return the metadata of a stored data set; None if it is not there."""
    file = stored_file(name)
    if not file.exists():
        return None
    try:
        return CacheEntry.model_validate_json(load_note(file)["about"])
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise UserError(f"{file} is damaged ({error}): 'feddecorr data get {name}' fetches it again") from error


def is_current(name: str, *, source: str) -> bool:
    """Say whether the cache has a readable data set from that source."""
    try:
        about = describe(name)
    except UserError:
        return False
    return about is not None and about.source == source


def load(name: str) -> Dataset:
    """Return a stored data set, or raise an error that says how to get it."""
    about = describe(name)
    if about is None:
        raise UserError(f"{name} is not in {cache_folder()}: 'feddecorr data get {name}' fetches it")
    train, test = (map_images(stored_file(name), part) for part in PARTS)
    return Dataset(train, test, about.classes, about.mean, about.std, about.sha256, about.note)


@contextmanager
def locked(name: str) -> Iterator[Path]:
    """Lock a data set against a second fetch; return the folder for downloads."""
    folder = cache_folder() / "downloads" / name
    with _writing():
        folder.mkdir(parents=True, exist_ok=True)
    with (InnerPath(folder.parent) / f"{name}.lock").held(f"{name} is being fetched by another process"):
        yield folder


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise UserError(
            f"{cache_folder()} cannot be written ({error}): make room there, or set FEDDECORR_DATA to another folder"
        ) from error


def _tensors(dataset: Dataset) -> Iterator[tuple[str, Tensor]]:
    for part in PARTS:
        images: Images = getattr(dataset, part)
        yield f"{part}.pixels", images.pixels.contiguous()
        yield f"{part}.labels", images.labels.contiguous()
