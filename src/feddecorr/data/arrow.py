"""Parquet and Arrow files, read in a separate process: whatever a file does to the library, it ends in an error."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from feddecorr.core.limits import MEMBER, PACKED, TOTAL, Allowance, brief, check_columns
from feddecorr.data import arrow_process
from feddecorr.data.arrow_process import LENGTHS
from feddecorr.errors import RunError, UserError, explain_refusal

COMMAND = (sys.executable, "-P", arrow_process.__file__)
"""Starts the process, without the working directory on its path."""

ROW = 64
"""Bytes that a row counts for at least: even empty rows take time."""

SECONDS = 60
"""Processor seconds that any file may take; a second more for each MiB of it."""

LATE = [-getattr(signal, name) for name in ("SIGXCPU", "SIGALRM") if hasattr(signal, name)]
"""Exit codes of the process when it takes too long."""

CRASHED = "crashed the library that reads it (pyarrow), so it is broken or malicious"
MISSING = "parquet and arrow files are read by pyarrow: pip install 'feddecorr[tables]'"


class Frame(NamedTuple):
    """A piece of an answer: a JSON head, and bytes whose lengths the head gives."""

    head: dict[str, Any]
    body: memoryview
    allowance: Allowance


class ArrowReader:
    """Reads untrusted tables while it is open; nothing in an answer is ever executed.

    The process starts when it is needed. It is killed after a crash, and when an answer is not read to its end.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> int:
        """Kill the process if there is one; return its exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        process.kill()
        with suppress(BrokenPipeError), process:  # the last question may not have reached it
            process.wait()
        return process.returncode

    def columns(self, path: Path) -> tuple[dict[str, frozenset[str]], bytes]:
        """Return the columns, each with the names of its fields, and the metadata of Hugging Face's library."""
        with _errors_named(path):
            (first,) = self._ask(path, "columns")
            return {name: frozenset(parts) for name, parts in first.head["columns"]}, bytes(first.body)

    def rows(self, path: Path, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Yield the values of each row, few rows in memory at a time; of lists and the like, only the type's name."""
        with _errors_named(path), closing(self._ask(path, "rows", columns)) as frames:
            known = [name for name, _ in next(frames).head["columns"]]
            for name in columns:
                if name not in known:
                    raise UserError(f"no column '{brief(name)}', unlike in other files of the data set")
            for head, body, allowance in frames:
                allowance.take(ROW * len(head["rows"]))
                yield from _with_bytes(head["rows"], body)

    def table(self, path: Path) -> list[tuple[str, NDArray[Any]]]:
        """Return the columns with their names; they hold numbers or strings."""
        with _errors_named(path), closing(self._ask(path, "table")) as frames:
            columns = next(frames).head["columns"]
            check_columns(len(columns))
            for name, parts in columns:
                if parts:
                    raise UserError(f"the column '{brief(name)}' holds lists or tables, not numbers or strings")
            pieces = [_arrays(*frame) for frame in frames]
            return [
                (name, np.concatenate([piece[place] for piece in pieces])) for place, (name, _) in enumerate(columns)
            ]

    def _ask(self, path: Path, what: str, columns: Sequence[str] = ()) -> Generator[Frame]:
        """Yield the answer; its first frame describes the columns."""
        length = path.stat().st_size
        asked: dict[str, Any] = {
            "path": str(path.absolute()),
            "what": what,
            "columns": list(columns),
            "memory": length + min(TOTAL, max(MEMBER, PACKED * length)),  # the file itself is memory-mapped
            "seconds": SECONDS + (length >> 20),
        }
        whole = False
        try:
            for frame in _frames(self._start(path), asked, Allowance(length)):
                if whole := "last" in frame.head:
                    _check_end(frame.head, asked["memory"])
                    return
                yield frame
        except _CrashError as error:
            raise UserError(f"reading it {'takes too long' if self.close() in LATE else CRASHED}") from error
        finally:
            if not whole:
                self.close()

    def _start(self, path: Path) -> subprocess.Popen[bytes]:
        if self._process is None:
            try:
                self._process = subprocess.Popen(  # noqa: S603 - our own
                    COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
                )
            except OSError as error:
                raise RunError(f"no process can be started to read {path}: {explain_refusal(error)}") from error
        return self._process


class _CrashError(Exception):
    """The process ended, or broke the protocol."""


def _frames(process: subprocess.Popen[bytes], asked: Mapping[str, Any], allowance: Allowance) -> Iterator[Frame]:
    """Yield the frames of an answer; bytes are counted before they are read."""
    assert process.stdin is not None  # noqa: S101
    assert process.stdout is not None  # noqa: S101
    try:
        process.stdin.write(json.dumps(asked).encode() + b"\n")
        process.stdin.flush()
    except OSError as error:
        raise _CrashError from error
    while True:
        head, body = LENGTHS.unpack(_exactly(process.stdout, LENGTHS.size))
        allowance.take(head + body)
        said = json.loads(_exactly(process.stdout, head))
        yield Frame(said, memoryview(_exactly(process.stdout, body)), allowance)


def _check_end(last: Mapping[str, Any], memory: int) -> None:
    """Raise the error that the last frame of an answer reports, if any."""
    match last["last"]:
        case "missing":
            raise UserError(MISSING)
        case "memory":
            raise UserError(f"refused, for it unpacks to more than {memory:,} bytes")
        case "wrong":
            raise ValueError(last["why"])


def _exactly(stream: IO[bytes], count: int) -> bytes:
    found = stream.read(count)
    if len(found) < count:
        raise _CrashError
    return found


def _with_bytes(rows: Any, body: memoryview) -> Iterator[tuple[Any, ...]]:
    """Yield the rows, with bytes in place of their lengths."""
    start = 0

    def filled(value: Any) -> Any:
        nonlocal start
        if isinstance(value, list):
            start += value[0]
            return bytes(body[start - value[0] : start])
        return {name: filled(inner) for name, inner in value.items()} if isinstance(value, dict) else value

    for row in rows:
        yield tuple(map(filled, row))


def _arrays(head: Mapping[str, Any], body: memoryview, allowance: Allowance) -> list[NDArray[Any]]:
    """Return a piece of each column; strings count as often as they occur."""
    found, start = [], 0
    for kind, size, words in head["table"]:
        values: NDArray[Any] = np.frombuffer(body[start : start + size], np.dtype(kind))
        start += size
        if words is not None:
            lengths = np.array([*(len(word or "") for word in words), 0])
            allowance.take(ROW * len(values) + int(lengths[values].sum()))
            values = np.array([*words, None], object)[values]
        found.append(values)
    return found


@contextmanager
def _errors_named(path: Path) -> Iterator[None]:
    try:
        yield
    except (MemoryError, RunError):
        raise
    except UserError as error:
        raise UserError(MISSING if str(error) == MISSING else f"{path}: {error}") from error
    except Exception as error:  # a broken file can make the library say anything at all
        raise UserError(f"{path} is not a readable table: {brief(str(error))}") from error
