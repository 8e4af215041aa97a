"""Files that are either whole or not there: written beside and moved into place."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from safetensors import safe_open
from safetensors.torch import save

from feddecorr.errors import UserError
from feddecorr.states import State


def write_bytes(path: Path, content: bytes) -> None:
    """Replace the file in one step."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(content)
    beside.replace(path)


def write_json(path: Path, content: Any) -> None:
    """Replace the JSON file in one step."""
    write_bytes(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def save_tensors(path: Path, tensors: State, note: Mapping[str, str] | None = None) -> None:
    """Replace the safetensors file in one step; the note is readable without the tensors."""
    write_bytes(path, save({name: tensor.contiguous() for name, tensor in tensors.items()}, dict(note or {})))


def load_tensors(path: Path) -> State:
    """Return the tensors of a safetensors file."""
    with safe_open(path, framework="pt") as stored:
        return {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - not a mapping


def load_note(path: Path) -> dict[str, str]:
    """Return the note of a safetensors file."""
    with safe_open(path, framework="pt") as stored:
        return dict(stored.metadata() or {})


@contextmanager
def exclusive(lock: Path, refusal: str) -> Iterator[None]:
    """Hold a lock file for a while; raise the refusal at once where another process has it."""
    held = FileLock(lock, timeout=0)
    try:
        held.acquire()
    except Timeout as error:
        raise UserError(refusal) from error
    try:
        yield
    finally:
        held.release()
