"""Public data sets: the facts about each, the layouts of its distributions, and its way into the cache."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import ClassVar

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from feddecorr.data import cache
from feddecorr.data.archives import MemberFilter, collect, gunzip
from feddecorr.data.dataset import Data, Dataset, Images, Outline, content_digest
from feddecorr.data.download import DownloadProgress, Source
from feddecorr.errors import RunError, UserError

AT_ONCE = 1000
"""Images that are resized at once: as floats they take eight times the memory."""


@dataclass(frozen=True)
class Recipe:
    """Everything about one public data set.

    Images are square, of that `side`. `mean` and `std` are those of each channel over the whole training set, in pixel
    units, as published or as counted: everyone standardizes by them, whichever part of the set they hold.
    `parse` turns the contents of the wanted files, by path, into a data set, from any official layout. `check` yields
    what is wrong with a set that has the right numbers of images. With `parts`, an incomplete copy is accepted
    without `--partial`.
    """

    name: str
    train: int
    test: int
    side: int
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    sources: tuple[Source, ...]
    wanted: MemberFilter
    parse: Callable[[Mapping[str, bytes]], Dataset]
    check: Callable[[Dataset], Iterator[str]]
    parts: bool = False

    def read(self, origin: Path) -> Dataset:
        """Return the data set in a folder or an archive."""
        files = collect(origin, self.wanted)
        try:
            return self.parse(files)
        except UserError as error:
            raise UserError(f"{origin}: {error}") from error

    def problems(self, dataset: Dataset) -> list[str]:
        """Return how the images differ from the whole, official data set."""
        if (len(dataset.train), len(dataset.test)) == (self.train, self.test):
            return list(self.check(dataset))
        return [
            f"{len(dataset.train)} of {self.train} training images and {len(dataset.test)} of {self.test} test images"
        ]


class PublicData(Data):
    """A public data set in the cache; a run never downloads it."""

    recipe: ClassVar[Recipe]

    size: PositiveInt | None = Field(
        None, description="smaller height and width, by the mean over areas; by default the original size"
    )

    def load(self) -> Dataset:
        """Return the images that the options ask for, in the size that they ask for."""
        dataset = super().load()
        return dataset if self.size is None else resize(dataset, self.size)

    def outline(self) -> Outline:
        """Return what the whole, official set is like, of which the options may ask for a part."""
        side = self.size or self.recipe.side
        train, test = self.train or self.recipe.train, self.test or self.recipe.test
        return Outline(train, test, (len(self.recipe.mean), side, side), self.recipe.classes)

    def read(self) -> Dataset:
        """Return the images, memory-mapped from the cache, with the constants of the whole set."""
        return replace(cache.load(self.recipe.name), mean=self.recipe.mean, std=self.recipe.std)

    def verify(self) -> tuple[Dataset, list[str]]:
        """Compare with the recorded digest, and with the official ones unless the copy is known to be incomplete."""
        dataset, entry = self.read(), cache.describe(self.recipe.name)
        found = content_digest(dataset.train, dataset.test)
        problems = [] if dataset.note else self.recipe.problems(dataset)
        if entry is not None and found != entry.sha256:
            problems.append(f"the pixels and labels have sha256 {found}, expected {entry.sha256}")
        return dataset, problems


def is_missing(data: Data) -> bool:
    """Return whether a data set has to be fetched before it can be read."""
    if not isinstance(data, PublicData):
        return False
    try:
        return cache.describe(data.recipe.name) is None
    except UserError:  # damaged
        return True


def read_copy(recipe: Recipe, origin: Path, *, partial: bool = False) -> Dataset:
    """Return the data set from a copy; an incomplete one only if asked for, and with a note."""
    dataset = recipe.read(origin)
    problems = recipe.problems(dataset)
    if not problems:
        return dataset
    if partial or (recipe.parts and len(dataset.train) <= recipe.train and len(dataset.test) <= recipe.test):
        return replace(dataset, note=f"not the whole, official {recipe.name}: {'; '.join(problems)}")
    hint = "--partial accepts it, and records what is missing"
    raise UserError(f"{origin}: not the whole, official {recipe.name}: {'; '.join(problems)} ({hint})")


def fetch(recipe: Recipe, progress: DownloadProgress, *, source: str | None = None) -> Path:
    """Fetch from the first source that works, and store; return the file in the cache."""
    known = [found.name for found in recipe.sources]
    if source is not None and source not in known:
        raise UserError(f"{recipe.name} has no source '{source}': there are: {', '.join(known)}")
    failures = []
    with cache.locked(recipe.name) as folder:
        for found in recipe.sources:
            if source not in (None, found.name):
                continue
            place = folder / found.name
            place.mkdir(exist_ok=True)
            try:
                origin = found.fetch(place, progress)
                progress(f"reading and checking {origin.name}", 0, 0)
                dataset = read_copy(recipe, origin)
            except (RunError, UserError) as error:
                failures.append(f"{found.name}: {error}")
                progress(failures[-1], 0, 0)
                continue
            file = cache.store(recipe.name, dataset, source=found.name)
            for each in recipe.sources:
                shutil.rmtree(folder / each.name, ignore_errors=True)
            with suppress(OSError):  # the user's own files stay
                folder.rmdir()
            return file
    raise RunError(
        f"{recipe.name} could not be fetched ({'; '.join(failures)}); if you have a copy: "
        f"'feddecorr data get {recipe.name} --from FILE_OR_FOLDER'"
    )


def compare_digests(files: Iterable[tuple[str, bytes]], digests: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each file with another md5 or sha256 than the official one."""
    for name, content in files:
        kind = "md5" if len(digests[name]) == 32 else "sha256"
        found = hashlib.new(kind, content, usedforsecurity=False).hexdigest()
        if found != digests[name]:
            yield f"{name} has {kind} {found}, expected {digests[name]}"


@dataclass(frozen=True)
class FileLayout:
    """One way in which a data set is distributed: its name, its files (in any folder), and how to read them."""

    name: str
    files: tuple[str, ...]
    read: Callable[[Mapping[str, bytes]], Dataset]


class FileLayouts:
    """All layouts of one data set, recognized by the names of their files, which may end in `.gz`."""

    def __init__(self, *layouts: FileLayout) -> None:
        self.layouts = layouts
        self._names = {name for layout in layouts for name in layout.files}

    def wanted(self, path: str) -> bool:
        """Say whether a file belongs to any layout."""
        return PurePosixPath(path).name.removesuffix(".gz") in self._names

    def parse(self, files: Mapping[str, bytes]) -> Dataset:
        """Read the first layout that is complete."""
        found = _by_name(list(files))
        for layout in self.layouts:
            if found.keys() >= set(layout.files):
                return layout.read({name: _content(found[name], files) for name in layout.files})
        nearest = max(self.layouts, key=lambda layout: len(found.keys() & set(layout.files)))
        missing = ", ".join(name for name in nearest.files if name not in found)
        known = "; ".join(f"{layout.name} ({', '.join(layout.files)})" for layout in self.layouts)
        raise UserError(f"{missing} not found; readable layouts are {known}")


def _by_name(paths: Sequence[str]) -> dict[str, str]:
    """Return the path of each file by its name; an unpacked file takes precedence over its `.gz`."""
    found: dict[str, str] = {}
    for path in sorted(paths, key=lambda path: path.endswith(".gz")):
        name = PurePosixPath(path).name.removesuffix(".gz")
        if name in found and found[name].endswith(".gz") == path.endswith(".gz"):
            raise UserError(f"'{found[name]}' and '{path}' have the same name: take the folder of one of them")
        found.setdefault(name, path)
    return found


def _content(path: str, files: Mapping[str, bytes]) -> bytes:
    return gunzip(path, files[path]) if path.endswith(".gz") else files[path]


def resize(dataset: Dataset, size: int) -> Dataset:
    """Shrink the images to size×size: each new pixel is the mean of the area it covers. The constants stay."""
    _, *sides = dataset.shape
    if size > min(sides):
        raise UserError(f"data.size={size} is more than the images have: at most {min(sides)} for this data set")
    return replace(dataset, train=_shrink(dataset.train, size), test=_shrink(dataset.test, size))


def _shrink(images: Images, size: int) -> Images:
    height, width, channels = images.pixels.shape[1:]
    pixels = torch.empty(len(images), size, size, channels, dtype=torch.uint8)
    down, across = areas(height, size), areas(width, size)
    for few, out in zip(images.pixels.split(AT_ONCE), pixels.split(AT_ONCE), strict=True):
        out.copy_(torch.einsum("ih,jw,nhwc->nijc", down, across, few.double()).round_())
    return Images(pixels, images.labels)


def areas(before: int, after: int) -> Tensor:
    """Return the share of each old pixel in each new one's area, shape (after, before); rows sum to one."""
    new, old = torch.arange(after).double()[:, None] * before, torch.arange(before).double() * after
    overlap = torch.minimum(new + before, old + after) - torch.maximum(new, old)
    return overlap.clamp(min=0) / before
