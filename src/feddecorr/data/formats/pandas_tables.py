"""Tables of pandas: the one place where that library is loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feddecorr.core.files import reading
from feddecorr.core.limits import brief, check_columns
from feddecorr.data.formats.arrow import Tables
from feddecorr.data.formats.csv_tables import INDEXES, columns_of, counts_rows
from feddecorr.errors import RunError, UserError

if TYPE_CHECKING:
    import pandas as pd


def pandas_library() -> Any:
    """Return the library, or say how to get it."""
    try:
        import pandas as pd  # noqa: PLC0415 - an extra, loaded when it is needed
    except ImportError as error:
        raise UserError("tables are read and made by pandas: pip install 'feddecorr[tables]'") from error
    return pd


def read_table(path: Path) -> pd.DataFrame:
    """Return the table of a csv or parquet file."""
    library = pandas_library()
    readers: dict[str, Callable[[Path], pd.DataFrame]] = {
        ".csv": lambda path: _read_csv(path, library),
        ".parquet": lambda path: _read_parquet(path, library),
    }
    read = readers.get(path.suffix.lower())
    if read is None:
        raise UserError(f"{path}: a table is a .csv or .parquet file")
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    try:
        table: pd.DataFrame = read(path)
        table.select_dtypes(exclude="number").to_numpy(dtype=object)  # text is decoded when it is looked at
    except (UserError, RunError, MemoryError):
        raise
    except Exception as error:  # whatever the readers raise on a damaged file
        raise UserError(f"{path} is no table that can be read: {brief(str(error))}") from error
    if nameless := [name for name in map(str, table.columns) if name.startswith("Unnamed: ")]:
        raise UserError(
            f"{path}: a column has no heading ({nameless[0]}); if it is an index, write the table without it "
            "(to_csv(…, index=False)), else give it a name"
        )
    for place, name in enumerate(map(str, table.columns)):
        column = table.iloc[:, place]
        if name.lower() in INDEXES or (place == 0 and column.dtype.kind in "iuf" and counts_rows(column.to_numpy())):
            raise UserError(
                f"{path}: the column '{name}' numbers the rows; if it is an index, write the table without it "
                "(to_csv(…, index=False)), else give it another name, and let it not come first"
            )
    return table


def _read_parquet(path: Path, library: Any) -> Any:
    with Tables() as tables:
        columns = tables.table(path)
    table = library.DataFrame({place: values for place, (_, values) in enumerate(columns)})
    return table.set_axis([name for name, _ in columns], axis="columns")  # names may come twice


def _read_csv(path: Path, library: Any) -> Any:
    with reading(path):
        check_columns(columns_of(path))
    return library.read_csv(path)
