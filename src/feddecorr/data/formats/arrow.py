"""Parquet and Arrow files, row by row: the one place where that library is loaded."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from feddecorr.core.limits import Allowance, brief, check_columns
from feddecorr.errors import UserError

ROWS = 1024
"""Rows that are looked at together."""

BATCH = 16 << 20
"""Bytes of plain numbers that are read together."""

ROW = 64
"""Bytes that a row counts for at least: also rows of nothing take time."""

COMPRESSION = 3
"""The number of that field among those of a batch of rows."""


def arrow_library() -> Any:
    """Return the library, or say how to get it."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra, loaded when it is needed
        import pyarrow.compute  # noqa: PLC0415
        import pyarrow.parquet  # noqa: PLC0415 - a part of it
    except ImportError as error:
        raise UserError("parquet and arrow files are read by pyarrow: pip install 'feddecorr[tables]'") from error
    return pa


def read_flat_table(path: Path) -> Any:
    """Return the columns of a parquet file, which hold numbers or words."""
    library = arrow_library()
    with _told(path):
        allowance = Allowance(path.stat().st_size)
        with _parquet(path, allowance) as (schema, file):
            check_columns(len(schema))
            for field in schema:
                if field.type.num_fields:
                    raise UserError(f"the column '{brief(field.name)}' holds lists or tables, not numbers or words")
            parts = []
            for batch in file(schema.names, max(1, BATCH // (8 * len(schema) or 1))):
                allowance.take(sum(_decoded(library, column) for column in batch.columns))
                parts.append(batch)
            types = [field.type for field in schema]
            plain = library.schema(
                [(field.name, _plain(library, kind)) for field, kind in zip(schema, types, strict=True)]
            )
            return library.Table.from_batches(parts, schema).cast(plain)


def _plain(library: Any, kind: Any) -> Any:
    return kind.value_type if library.types.is_dictionary(kind) else kind


def _decoded(library: Any, column: Any) -> int:
    """Return the bytes of a column when each of its words stands for itself."""
    if not library.types.is_dictionary(column.type):
        return int(column.nbytes)
    lengths = library.compute.binary_length(column.dictionary)
    return 64 * len(column) + int(library.compute.sum(lengths.take(column.indices)).as_py() or 0)


def describe_columns(path: Path) -> tuple[dict[str, frozenset[str]], bytes]:
    """Return the columns of a parquet or arrow file, each with the names of its parts, and what is noted of them."""
    with _told(path), _opened(path, Allowance(path.stat().st_size)) as (schema, _):
        parts = {
            field.name: frozenset(field.type.field(place).name for place in range(field.type.num_fields))
            for field in schema
        }
        return parts, bytes((schema.metadata or {}).get(b"huggingface", b""))


def rows_of(path: Path, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the values of each row of a parquet or arrow file, one row in memory at a time."""
    arrow_library()
    with _told(path), _opened(path, Allowance(path.stat().st_size)) as (schema, batches):
        for name in columns:
            if name not in schema.names:
                raise UserError(f"no column '{brief(name)}', unlike in other files of the data set")
        for batch in batches(columns, ROWS):
            batch.validate(full=True)  # what a stranger wrote can point anywhere
            found = [batch.column(name) for name in columns]
            for place in range(batch.num_rows):
                yield tuple(column[place].as_py() for column in found)


Batches = Callable[[Sequence[str], int], Iterator[Any]]
"""Gives batches of rows of these columns, so many at most where the file does not say how many."""


@contextmanager
def _opened(path: Path, allowance: Allowance) -> Iterator[tuple[Any, Batches]]:
    with (_parquet if path.suffix == ".parquet" else _stream)(path, allowance) as opened:
        yield opened


@contextmanager
def _parquet(path: Path, allowance: Allowance) -> Iterator[tuple[Any, Batches]]:
    """Open a parquet file; words stay in its dictionaries, so that none is there more than once."""
    library = arrow_library()
    read: Any = library.parquet.ParquetFile
    with read(path) as file:
        about = file.metadata
        groups = [about.row_group(number) for number in range(about.num_row_groups)]
        chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
        allowance.take(max(about.num_rows * ROW, sum(max(0, chunk.total_uncompressed_size) for chunk in chunks)))
        words = [chunk.path_in_schema for chunk in chunks if chunk.physical_type == "BYTE_ARRAY"]
    with read(path, read_dictionary=sorted(set(words)), memory_map=True) as file:
        yield (
            file.schema_arrow,
            lambda columns, rows: file.iter_batches(rows, columns=list(columns), use_threads=False),
        )


@contextmanager
def _stream(path: Path, allowance: Allowance) -> Iterator[tuple[Any, Batches]]:
    """Open a file of Arrow's stream format, whose batches are mapped: packed ones, which are not, are refused."""
    library = arrow_library()
    with library.memory_map(str(path)) as source:
        messages = iter(library.ipc.MessageReader.open_stream(source))
        schema = library.ipc.read_schema(next(messages))

        def batches(columns: Sequence[str], _: int) -> Iterator[Any]:
            for message in messages:
                if message.type != "record batch" or _is_packed(bytes(message.metadata)):
                    raise UserError(f"it holds a {message.type}, or packed rows: save it anew with 'save_to_disk'")
                batch = library.ipc.read_record_batch(message, schema)
                allowance.take(batch.num_rows * ROW)
                yield batch.select(list(columns))

        yield schema, batches


def _is_packed(metadata: bytes) -> bool:
    """Tell whether a message's batch of rows says how it is packed (flatbuffers: Message.header.compression)."""
    message = struct.unpack_from("<I", metadata, 0)[0]
    header = _field(metadata, message, 2)
    return bool(_field(metadata, header + struct.unpack_from("<I", metadata, header)[0], COMPRESSION))


def _field(metadata: bytes, table: int, number: int) -> int:
    """Return where a table has its field of that number; 0 if it has none."""
    names = table - struct.unpack_from("<i", metadata, table)[0]
    size, slot = struct.unpack_from("<H", metadata, names)[0], 4 + 2 * number
    offset = struct.unpack_from("<H", metadata, names + slot)[0] if slot < size else 0
    return table + offset if offset else 0


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    except MemoryError:
        raise
    except Exception as error:  # a broken file can raise anything at all
        raise UserError(f"{path} is no table that can be read: {brief(str(error))}") from error
