"""Files that are either whole or not there."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from feddecorr.core.paths import FOLDER, InnerPath, named, passes, replace
from feddecorr.core.states import State
from feddecorr.core.text import parse_json, to_json
from feddecorr.errors import RunError, UserError

AnyPath = Path | InnerPath
"""A file that the user named, or one inside a folder that may be a stranger's."""


def write_bytes(path: AnyPath, content: bytes) -> None:
    """Replace the file in one step: whatever happens, also a loss of power, either the old or the new one is there."""
    if isinstance(path, InnerPath):
        path.write(content)
        return
    with named(path):
        folder = os.open(path.parent, FOLDER)
        try:
            replace(folder, path.name, content, lasting=not passes(path.parent))
        finally:
            os.close(folder)


def write_json(path: AnyPath, content: Any) -> None:
    """Replace the JSON file in one step; what could not be read again is refused."""
    try:
        written = to_json(content, indent=2)
    except (ValueError, TypeError) as error:
        raise UserError(f"{path} cannot be written as JSON that could be read back: {error}") from error
    write_bytes(path, written)


def save_tensors(path: AnyPath, tensors: State, note: Mapping[str, str] | None = None) -> None:
    """Replace the safetensors file in one step; the note is readable without the tensors."""
    write_bytes(path, save({name: tensor.contiguous() for name, tensor in tensors.items()}, dict(note or {})))


@contextmanager
def reading(path: AnyPath, line: int | None = None) -> Iterator[None]:
    """Say of all that is wrong with a file's content in which file, and in which line, it is."""
    try:
        yield
    except (RunError, MemoryError):
        raise
    except Exception as error:  # a broken file can raise anything at all
        place = str(path) if line is None else f"{path}, line {line}"
        raise UserError(_explain(error, place, str(path))) from error


def _explain(error: Exception, place: str, path: str) -> str:
    match error:
        case UserError():
            return str(error) if str(error).startswith(path) else f"{place}: {error}"
        case json.JSONDecodeError():
            found = place if place != path else f"{path}, line {error.lineno}"
            return f"{found}: no JSON, or cut off: {error.msg} (column {error.colno})"
        case SafetensorError():
            return f"{place}: no safetensors, or cut off: {error}"
        case OSError():
            return f"{place} cannot be read: {error.strerror or error}"
        case KeyError():
            return f"{place}: {error} is missing"
    return f"{place} cannot be read: {error}"


def read_json(path: AnyPath) -> Any:
    """Return what a JSON file holds; it is a plain one of bounded size."""
    inner = path if isinstance(path, InnerPath) else InnerPath(path.parent) / path.name
    with reading(path):
        return parse_json(inner.read())


@contextmanager
def _by_name(path: AnyPath) -> Iterator[str]:
    """Give a name under which a library opens the file; inside a folder, it is that of an open descriptor."""
    if isinstance(path, Path):
        yield str(path)
        return
    with path.open() as descriptor:
        yield f"/dev/fd/{descriptor}"


def load_tensors(path: AnyPath) -> State:
    """Return the tensors of a safetensors file."""
    with reading(path), _by_name(path) as name, safe_open(name, framework="pt") as stored:
        return {key: stored.get_tensor(key) for key in stored.keys()}  # noqa: SIM118 - not a mapping


def load_note(path: AnyPath) -> dict[str, str]:
    """Return the note of a safetensors file."""
    with reading(path), _by_name(path) as name, safe_open(name, framework="pt") as stored:
        return dict(stored.metadata() or {})


def digest_of(path: InnerPath) -> str:
    """Return the sha256 of a file."""
    with reading(path), path.open() as descriptor, open(descriptor, "rb", closefd=False) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
