"""What is known of a public data set: where it comes from, how it is read, and how to tell that it is whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from feddecorr.data.dataset import Dataset
from feddecorr.data.fetch.sources import Source
from feddecorr.data.formats.archives import Wanted, collect
from feddecorr.errors import UserError


@dataclass(frozen=True)
class Recipe:
    """All about one public data set.

    `mean` and `std` are those of each channel over the whole training set, in pixel units, as published or as
    counted over it: whoever trains on it standardizes by them, whichever part of it he holds.
    `parse` takes the contents of the wanted files by their paths, in any official layout. `check` yields what
    is not as it should be in a set with the right numbers of images. With `parts`, a copy of fewer images is
    taken without being asked for.
    """

    name: str
    train: int
    test: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    sources: tuple[Source, ...]
    wanted: Wanted
    parse: Callable[[Mapping[str, bytes]], Dataset]
    check: Callable[[Dataset], Iterator[str]]
    parts: bool = False

    def read(self, origin: Path) -> Dataset:
        """Return what a folder or an archive holds."""
        files = collect(origin, self.wanted)
        try:
            return self.parse(files)
        except UserError as error:
            raise UserError(f"{origin}: {error}") from error

    def problems(self, dataset: Dataset) -> list[str]:
        """Return in which ways the images are not the whole, official data set."""
        if (len(dataset.train), len(dataset.test)) == (self.train, self.test):
            return list(self.check(dataset))
        return [
            f"{len(dataset.train)} of {self.train} training images and {len(dataset.test)} of {self.test} test images"
        ]


def compare(files: Iterable[tuple[str, bytes]], digests: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each file whose md5 or sha256 is another."""
    for name, content in files:
        kind = "md5" if len(digests[name]) == 32 else "sha256"
        found = hashlib.new(kind, content, usedforsecurity=False).hexdigest()
        if found != digests[name]:
            yield f"{name} has {kind} {found}, expected {digests[name]}"
