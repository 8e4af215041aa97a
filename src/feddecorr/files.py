"""Files that are either whole or not there: written beside, brought to the disk, and moved into place."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from feddecorr.errors import RunError, UserError
from feddecorr.states import State
from feddecorr.strict_json import parse_json
from feddecorr.temporary import passes


def write_bytes(path: Path, content: bytes) -> None:
    """Replace the file in one step: whatever happens, also a loss of power, either the old or the new one is there."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with _named(path), beside.open("wb") as file:
            file.write(content)
            file.flush()
            sync(file.fileno(), path)
        beside.replace(path)
    except BaseException:  # a full disk must not be filled by half a file
        beside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def keep_copy(source: Path, target: Path) -> None:
    """Let a file that is only ever replaced also be there under another name; a copy where it cannot have two."""
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        os.link(source, beside)
    except OSError:
        write_bytes(target, source.read_bytes())
        return
    beside.replace(target)
    beside.unlink(missing_ok=True)  # where the target is that very file already, nothing was renamed


def append_bytes(path: Path, content: bytes) -> None:
    """Write to the end of the file, and bring it to the disk."""
    with _named(path), path.open("ab") as file:
        file.write(content)
        file.flush()
        sync(file.fileno(), path)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Say which file it was that the system refused to write."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def sync(descriptor: int, path: Path) -> None:
    """Bring what was written to the disk: a name must never be given to what a loss of power could take back."""
    if not passes(path):
        os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Bring the names of a folder to the disk, where folders can be opened for that."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            sync(descriptor, folder)
        finally:
            os.close(descriptor)


def write_json(path: Path, content: Any) -> None:
    """Replace the JSON file in one step."""
    write_bytes(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def save_tensors(path: Path, tensors: State, note: Mapping[str, str] | None = None) -> None:
    """Replace the safetensors file in one step; the note is readable without the tensors."""
    write_bytes(path, save({name: tensor.contiguous() for name, tensor in tensors.items()}, dict(note or {})))


@contextmanager
def reading(path: Path, line: int | None = None) -> Iterator[None]:
    """Say of all that is wrong with a file's content in which file, and in which line, it is."""
    place = str(path) if line is None else f"{path}, line {line}"
    try:
        yield
    except (RunError, MemoryError):
        raise
    except UserError as error:
        raise UserError(f"{place}: {error}") from error
    except json.JSONDecodeError as error:
        found = f"{path}, line {line or error.lineno}"
        raise UserError(f"{found}: no JSON, or cut off: {error.msg} (column {error.colno})") from error
    except SafetensorError as error:
        raise UserError(f"{place}: no safetensors, or cut off: {error}") from error
    except OSError as error:
        raise UserError(f"{place} cannot be read: {error.strerror or error}") from error
    except KeyError as error:
        raise UserError(f"{place}: {error} is missing") from error
    except Exception as error:  # a broken file can raise anything at all
        raise UserError(f"{place} cannot be read: {error}") from error


def read_json(path: Path) -> Any:
    """Return what a JSON file holds."""
    with reading(path):
        return parse_json(path.read_bytes())


def load_tensors(path: Path) -> State:
    """Return the tensors of a safetensors file."""
    with reading(path), safe_open(path, framework="pt") as stored:
        return {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - not a mapping


def load_note(path: Path) -> dict[str, str]:
    """Return the note of a safetensors file."""
    with reading(path), safe_open(path, framework="pt") as stored:
        return dict(stored.metadata() or {})


@contextmanager
def exclusive(lock: Path, refusal: str) -> Iterator[Callable[[], bool]]:
    """Hold a lock file for a while; raise the refusal at once where another process has it.

    What is given tells whether the lock is still the one that others would meet: somebody may have removed it.
    """
    held = FileLock(lock, timeout=0)
    try:
        held.acquire()
    except Timeout as error:
        raise UserError(refusal) from error
    try:
        with lock.open("rb") as mine:

            def is_there() -> bool:
                return lock.exists() and os.path.samestat(os.fstat(mine.fileno()), lock.stat())

            yield is_there
    finally:
        held.release()
