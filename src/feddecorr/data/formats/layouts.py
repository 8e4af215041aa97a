"""The forms in which one data set is passed on, told apart by the names of their files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from feddecorr.data.dataset import Dataset
from feddecorr.data.formats.archives import gunzip
from feddecorr.errors import UserError


@dataclass(frozen=True)
class Layout:
    """A form: its name, the files it needs (whatever folders they are in), and how to read them."""

    name: str
    files: tuple[str, ...]
    read: Callable[[Mapping[str, bytes]], Dataset]


class Layouts:
    """All forms of one data set. Each file may also be packed, with `.gz` after its name."""

    def __init__(self, *layouts: Layout) -> None:
        self.layouts = layouts
        self._names = {name for layout in layouts for name in layout.files}

    def wanted(self, path: str) -> bool:
        """Say whether a file belongs to any form."""
        return PurePosixPath(path).name.removesuffix(".gz") in self._names

    def parse(self, files: Mapping[str, bytes]) -> Dataset:
        """Read the first form that is all there."""
        found = _by_name(list(files))
        for layout in self.layouts:
            if found.keys() >= set(layout.files):
                return layout.read({name: _content(found[name], files) for name in layout.files})
        nearest = max(self.layouts, key=lambda layout: len(found.keys() & set(layout.files)))
        missing = ", ".join(name for name in nearest.files if name not in found)
        forms = "; ".join(f"{layout.name} ({', '.join(layout.files)})" for layout in self.layouts)
        raise UserError(f"{missing} not found; what can be read is {forms}")


def _by_name(paths: Sequence[str]) -> dict[str, str]:
    """Return the path for each file's name; an unpacked file goes before a packed one."""
    found: dict[str, str] = {}
    for path in sorted(paths, key=lambda path: path.endswith(".gz")):
        name = PurePosixPath(path).name.removesuffix(".gz")
        if name in found and found[name].endswith(".gz") == path.endswith(".gz"):
            raise UserError(f"'{found[name]}' and '{path}' have the same name: take the folder of one of them")
        found.setdefault(name, path)
    return found


def _content(path: str, files: Mapping[str, bytes]) -> bytes:
    return gunzip(path, files[path]) if path.endswith(".gz") else files[path]
