"""The process that reads parquet and arrow files: the only place where pyarrow is loaded.

It is started by its path and not as a module, so neither this package nor PyTorch is loaded. Each line of standard
input asks for a file. The answer consists of frames: two lengths, a head (JSON) and a body (plain bytes). The first
frame describes the columns, the last one says that it is the last. Here only the limits of this process are enforced:
the caller counts what it receives.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

LENGTHS = struct.Struct("<QQ")
"""The lengths of a frame's head and body."""

ROWS = 64
"""Rows that are read together."""

CELLS = 1 << 21
"""Numbers of a table that are read together."""

MOST_ROWS = 1 << 16
"""Maximal number of rows of a table that are read together, however narrow it is: strings may be long."""

PATIENCE = 600
"""Seconds within which rows must arrive, even if the library waits without using the processor."""


def main() -> None:
    """Answer until standard input ends; a caller that does not want the rest of an answer kills this process."""
    out = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):  # discard what libraries print
        os.dup2(nowhere, descriptor)
    os.environ |= {"ARROW_DEFAULT_MEMORY_POOL": "system", "OPENBLAS_NUM_THREADS": "1"}  # others reserve much memory
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        try:
            import pyarrow as pa  # noqa: PLC0415 - optional
            import pyarrow.parquet  # noqa: PLC0415

            _limit(asked)
            for head, body in _answer(pa, asked):
                _wake_after(0)
                _send(out, head, body)
                _wake_after(PATIENCE)
            last: dict[str, Any] = {"last": None}
        except BrokenPipeError:
            return
        except MemoryError:
            last = {"last": "memory"}
        except ModuleNotFoundError as error:
            last = {"last": "missing" if error.name == "pyarrow" else "wrong", "why": str(error)}
        except Exception as error:  # a broken file can raise anything at all
            last = {"last": "wrong", "why": str(error)[:1000]}
        _wake_after(0)
        _send(out, last)


def _send(out: BinaryIO, head: dict[str, Any], body: Sequence[bytes] = ()) -> None:
    written = json.dumps(head).encode()
    out.write(LENGTHS.pack(len(written), sum(map(len, body))))
    for part in (written, *body):
        out.write(part)
    out.flush()


def _wake_after(seconds: int) -> None:
    """End this process after that time; 0 cancels."""
    if hasattr(signal, "alarm"):  # not on every platform
        signal.alarm(seconds)


def _limit(asked: dict[str, Any]) -> None:
    """Limit further memory and processor time to what the caller says; write no core dump."""
    _wake_after(PATIENCE)
    with suppress(ImportError):  # not on every platform
        import resource  # noqa: PLC0415

        used = resource.getrusage(resource.RUSAGE_SELF)
        limits = {
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_CPU: int(used.ru_utime + used.ru_stime) + 1 + asked["seconds"],
        }
        with suppress(OSError):  # only on Linux is this file there, and the limit enforced
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            limits[resource.RLIMIT_AS] = pages * resource.getpagesize() + asked["memory"]
        for kind, limit in limits.items():
            hard = resource.getrlimit(kind)[1]
            resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _answer(pa: Any, asked: dict[str, Any]) -> Iterator[tuple[dict[str, Any], list[bytes]]]:
    """Yield the columns and their metadata, and then what the caller asks for."""
    parquet, columns = asked["path"].endswith(".parquet"), asked["columns"]
    with pa.memory_map(asked["path"]) as source:
        file = pa.parquet.ParquetFile(source) if parquet else pa.ipc.open_stream(source)
        schema = file.schema_arrow if parquet else file.schema
        parts = [
            [field.name, [field.type.field(place).name for place in range(field.type.num_fields)]] for field in schema
        ]
        yield {"columns": parts}, [(schema.metadata or {}).get(b"huggingface", b"")]
        if asked["what"] == "rows":
            for batch in _batches(file, columns, ROWS) if parquet else _pieces(file, columns):
                yield _rows(batch, columns)
        if asked["what"] == "table":
            yield _table(pa, pa.RecordBatch.from_pylist([], schema))
            for batch in _batches(file, schema.names, min(MOST_ROWS, CELLS // (len(schema) or 1) or 1)):
                yield _table(pa, batch)


def _batches(file: Any, columns: list[str], rows: int) -> Iterator[Any]:
    for batch in file.iter_batches(rows, columns=columns, use_threads=False):
        batch.validate(full=True)  # offsets in an untrusted file can point anywhere
        yield batch


def _pieces(stream: Any, columns: list[str]) -> Iterator[Any]:
    """Yield few rows at a time: the size of a stream's batches is up to the file."""
    for whole in stream:
        batch = whole.select(columns)
        batch.validate(full=True)
        for start in range(0, batch.num_rows, ROWS):
            yield batch.slice(start, ROWS)


def _rows(batch: Any, columns: list[str]) -> tuple[dict[str, Any], list[bytes]]:
    """Return rows in which bytes are replaced by their length."""
    body: list[bytes] = []

    def plain(value: Any) -> Any:
        if isinstance(value, bytes):
            body.append(value)
            return [len(value)]
        if isinstance(value, dict):
            return {name: plain(inner) for name, inner in value.items()}
        return value if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"

    values = [batch.column(name).to_pylist() for name in columns]
    return {"rows": [[plain(value) for value in row] for row in zip(*values, strict=True)]}, body


def _table(pa: Any, batch: Any) -> tuple[dict[str, Any], list[bytes]]:
    """Return columns of numbers as they are in memory, and of strings as indices (-1: none) into a list."""
    head: list[Any] = []
    body: list[bytes] = []
    for column in batch.columns:
        values = column
        if pa.types.is_dictionary(column.type) and not _is_text(pa, column.type.value_type):
            values = column.dictionary_decode()
        if _is_number(pa, values):
            numbers = values.to_numpy(zero_copy_only=False)
            head.append([numbers.dtype.str, numbers.nbytes, None])
        else:
            words = _words(pa, values)
            numbers = words.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
            head.append([numbers.dtype.str, numbers.nbytes, words.dictionary.to_pylist()])
        body.append(numbers.tobytes())
    return {"table": head}, body


def _is_number(pa: Any, values: Any) -> bool:
    kind, types = values.type, pa.types
    if types.is_boolean(kind):
        return not values.null_count
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_duration(kind)
        or (types.is_timestamp(kind) and kind.tz is None)
    )


def _is_text(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _words(pa: Any, values: Any) -> Any:
    """Return a dictionary array of the strings; values of other types are converted by `str`."""
    if pa.types.is_dictionary(values.type):
        return values
    if not _is_text(pa, values.type):
        values = pa.array(list(map(_word, values.to_pylist())), pa.string())
    return values.dictionary_encode()


def _word(value: Any) -> str | None:
    return value.decode() if isinstance(value, bytes) else None if value is None else str(value)


if __name__ == "__main__":
    main()
