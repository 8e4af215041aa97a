"""What a node keeps on its disk between messages, found by the names that we give it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

RUN = re.compile(r"[0-9a-f]{32}")
MEMORY = re.compile(r"\d+/\d+\.safetensors")
DECODED = re.compile(r"(folder-[0-9a-f]{16}|hf-[\w-]+)\.safetensors")
"""Decoded pictures of one's own in the cache; public data sets have other names."""


def find(memory: Path, cache: Path) -> Iterator[Path]:
    """Yield the files: what clients remember of runs, `RUN/CLIENT/ROUND.safetensors`, and decoded pictures."""
    for run in _named(memory, RUN):
        for file in sorted(run.glob("*/*")):
            if MEMORY.fullmatch(str(file.relative_to(run))) and _is_plain(file, below=run):
                yield file
    yield from (file for file in _named(cache, DECODED) if _is_plain(file, below=cache))


def remove(files: list[Path], memory: Path) -> None:
    """Remove the files, and the folders of runs and clients that are empty then."""
    for file in files:
        file.unlink()
        for folder in (file.parent, file.parent.parent):
            if memory in folder.parents and not any(folder.iterdir()):
                folder.rmdir()


def _named(folder: Path, name: re.Pattern[str]) -> list[Path]:
    return sorted(path for path in folder.iterdir() if name.fullmatch(path.name)) if folder.is_dir() else []


def _is_plain(file: Path, *, below: Path) -> bool:
    """Tell whether it is a file that lies where its name says, and no link to another place."""
    return file.is_file() and file.resolve() == below.resolve() / file.relative_to(below) and not below.is_symlink()
