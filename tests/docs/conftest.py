from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
from browsers import browser
from command_line import CommandLine
from copies import Files, cifar10_binary, cifar100_python, mnist, tinyimagenet, write_folder
from reader import Reader

from feddecorr.core.randomness import threads
from feddecorr.data.cifar import Cifar10, Cifar100
from feddecorr.data.download import DownloadProgress
from feddecorr.data.mnist import FashionMnist, Mnist
from feddecorr.data.public import PublicData
from feddecorr.data.tinyimagenet import TinyImageNet

__all__ = ["browser"]

STAND_INS: dict[type[PublicData], Callable[[], Files]] = {
    Cifar10: partial(cifar10_binary, 20),
    Cifar100: cifar100_python,
    TinyImageNet: tinyimagenet,
    Mnist: mnist,
    FashionMnist: mnist,
}
"""Small copies in the official layouts, in place of what is on the network."""


@dataclass(frozen=True)
class AtHand:
    """A source that has a small copy."""

    files: Callable[[], Files]
    name: str = "home"

    def fetch(self, folder: Path, progress: DownloadProgress) -> Path:
        """Write the copy out."""
        progress("writing a small copy", 0, 0)
        return write_folder(folder / "copy", self.files())


@pytest.fixture
def reader(tmp_path: Path, feddecorr: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """Return a reader with an empty directory, an empty cache, and data sets that can be got without a network."""
    monkeypatch.setenv("FEDDECORR_DATA", str(tmp_path / "cache"))
    for data, files in STAND_INS.items():
        monkeypatch.setattr(data, "recipe", replace(data.recipe, sources=(AtHand(files),), parts=True))
    directory = tmp_path / "reader"
    directory.mkdir()
    with threads(1):
        yield Reader(directory, feddecorr, monkeypatch)
