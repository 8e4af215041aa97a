"""Any runs as tables: for a paper, mean ± deviation over seeds, the best marked; for pandas, a row for each round."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feddecorr.config.overrides import flatten
from feddecorr.core.files import write_bytes
from feddecorr.core.text import csv_cell, latex, markdown
from feddecorr.errors import UserError
from feddecorr.results.groups import NOT_MEASURED, Cell, covers, group_runs
from feddecorr.results.names import columns as named_columns
from feddecorr.results.names import is_of_arm, is_regularizer
from feddecorr.results.sample import Sample, factor_of
from feddecorr.results.study import Label, Labels
from feddecorr.results.summary import COSTS, STATISTICS, Summary, read_summaries

if TYPE_CHECKING:
    import pandas as pd

DIGITS = 2


@dataclass(frozen=True)
class TableEntry:
    """A number of a table: of no seed at all where it was not measured; `factor` is that of the unit it is shown in."""

    sample: Sample
    factor: float = 1.0
    best: bool = False

    @property
    def text(self) -> str:
        """Mean ± deviation over the seeds."""
        return self.sample.times(self.factor).text(DIGITS) or NOT_MEASURED

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return {
            "mean": self.sample.mean if self.sample.values else None,
            "deviation": self.sample.deviation if len(self.sample) > 1 else None,
            "seeds": len(self.sample),
            "best": self.best,
        }


@dataclass(frozen=True)
class ResultTable:
    """Rows of entries, with the names that a reader sees; `settings` and `keys` are what a program reads of both."""

    labels: Sequence[str]
    columns: Sequence[str]
    rows: Sequence[tuple[Sequence[str], Sequence[TableEntry]]]
    settings: Sequence[Labels]
    keys: Sequence[str]

    @property
    def headings(self) -> list[str]:
        """The names of all columns."""
        return [*self.labels, *self.columns]

    def to_dict(self) -> list[dict[str, Any]]:
        """Return it ready for JSON, a mapping for each row."""
        return [
            {
                "name": ", ".join(labels),
                **settings,
                "values": {name: entry.to_dict() for name, entry in zip(self.keys, entries, strict=True)},
            }
            for settings, (labels, entries) in zip(self.settings, self.rows, strict=True)
        ]


def tabulate(
    summaries: Sequence[Summary],
    *,
    by: Sequence[str] = (),
    columns: str | None = None,
    measure: str = "accuracy",
    statistic: str = "last",
) -> ResultTable:
    """Group runs by what differs between them, and show a measure.

    Of runs that differ in their regularizers alone, the best is marked; where there are none, the best of each
    column. Without `columns`, these are the statistics: last round, mean of the last ten, best. With a setting, they
    are its values, and show one statistic.
    """
    if statistic not in STATISTICS:
        raise UserError(f"the statistic is one of {', '.join(STATISTICS)}, not '{statistic}'")
    cells = group_runs(summaries, [*by, *([columns] if columns else [])])
    axes = [name for name in cells[0].labels if columns is None or not covers(columns, name)]
    rows: dict[tuple[Label, ...], tuple[Cell, dict[str, Sample]]] = {}
    parted = columns is not None and is_of_arm(columns) and any(map(is_of_arm, axes))
    rivals: dict[object, list[tuple[int, str]]] = {}
    keys: dict[str, str] = {}
    for cell in cells:
        place = tuple(cell.labels[name] for name in axes)
        _, row = rows.setdefault(place, (cell, {}))
        across = {name: value for name, value in cell.labels.items() if name not in axes}
        named = cell.named(list(across), alone=parted).whole
        shown = {named: statistic} if columns else {text: name for name, text in STATISTICS.items()}
        if columns:
            keys[named] = " ".join(f"{name}={value}" for name, value in across.items())
        for column, name in shown.items():
            row[column] = cell.sample(name, measure)
            rest = [(key, value) for key, value in cell.labels.items() if not is_regularizer(key)]
            rivals.setdefault((name, *rest), []).append((list(rows).index(place), column))
    samples = [row for _, row in rows.values()]
    names = list(dict.fromkeys(column for row in samples for column in row))
    if not any(sample.values for row in samples for sample in row.values()):
        raise UserError(f"no run has measured '{measure}': choose one such as accuracy, loss, effective_rank")
    groups = [group for group in rivals.values() if len(group) > 1]
    groups = groups or [[(place, name) for place, row in enumerate(samples) if name in row] for name in names]
    best = {each for group in groups for each in _best(samples, group)}
    factor = factor_of(measure)
    entries = [
        [TableEntry(row.get(name, Sample({})), factor, (place, name) in best) for name in names]
        for place, row in enumerate(samples)
    ]
    labels = [{name: cell.labels[name] for name in axes} for cell, _ in rows.values()]
    arms = [cell.named(axes, alone=parted) for cell, _ in rows.values()]
    headings, words = named_columns(list(zip(labels, arms, strict=True)))
    return ResultTable(
        headings, names, list(zip(words, entries, strict=True)), labels, [keys.get(each, each) for each in names]
    )


def _best(rows: Sequence[Mapping[str, Sample]], group: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return those of these entries that have the largest mean."""
    known = {(place, name): rows[place][name].mean for place, name in group if rows[place][name].values}
    return [each for each, mean in known.items() if mean == max(known.values())]


def to_text(table: ResultTable) -> list[list[str]]:
    """Return the rows as plain words; the best has an asterisk."""
    return [[*labels, *(each.text + "*" * each.best for each in entries)] for labels, entries in table.rows]


def to_markdown(table: ResultTable) -> str:
    """Return the table in Markdown."""

    def cell(entry: TableEntry) -> str:
        return f"**{entry.text}**" if entry.best else entry.text

    lines = [list(map(markdown, table.headings)), ["---"] * len(table.labels) + ["---:"] * len(table.columns)]
    lines += [[*map(markdown, labels), *map(cell, entries)] for labels, entries in table.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def to_latex(table: ResultTable) -> str:
    """Return the table in LaTeX, for the package booktabs."""

    def cell(entry: TableEntry) -> str:
        if not entry.sample.values:
            return "--"
        mean, *deviation = entry.text.split(" ± ")
        return "$" + r" \pm ".join([rf"\mathbf{{{mean}}}" if entry.best else mean, *deviation]) + "$"

    lines = [
        rf"\begin{{tabular}}{{{'l' * len(table.labels)}{'r' * len(table.columns)}}}",
        r"\toprule",
        rf"{' & '.join(map(latex, table.headings))} \\",
        r"\midrule",
        *(rf"{' & '.join([*map(latex, labels), *map(cell, entries)])} \\" for labels, entries in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines)


def to_csv(table: ResultTable) -> str:
    """Return the table as CSV, with mean, deviation and the number of seeds in columns of their own."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    parts = [f"{name} {part}" for name in table.columns for part in ("mean", "deviation", "seeds")]
    writer.writerow(map(csv_cell, [*table.labels, *parts]))
    for labels, entries in table.rows:
        numbers: list[object] = []
        for entry in entries:
            mean, _, deviation = entry.sample.times(entry.factor).text(DIGITS).partition(" ± ")
            numbers += [mean, deviation, len(entry.sample)]
        writer.writerow([*map(csv_cell, labels), *numbers])
    return stream.getvalue().rstrip("\n")


FORMATS: dict[str, Callable[[ResultTable], str]] = {"markdown": to_markdown, "latex": to_latex, "csv": to_csv}
"""How a table can be written, apart from plain text."""

ENDINGS = (".parquet", ".csv")
"""Files that rounds are written to."""


def pandas_library() -> Any:
    """Return pandas, or say how to get it."""
    try:
        import pandas as pd  # noqa: PLC0415 - optional
    except ImportError as error:
        raise UserError("tables of runs are made by pandas: pip install 'feddecorr[tables]'") from error
    return pd


def load_runs(*sources: str | Path) -> pd.DataFrame:
    """Return the finished rounds of runs, folders of runs and records (.jsonl) as a table, one row a round.

    `run` is the run's digest; `sent` and `received` are bytes per client; `setting.NAME` are its settings by their
    dotted names, the same in each of its rows; `term.NAME` are the terms of the local objective; all other columns are
    measures of the global model by their names, empty where it was not evaluated.
    """
    library = pandas_library()
    summaries = read_summaries([Path(source) for source in sources])
    table: pd.DataFrame = library.DataFrame([row for summary in summaries for row in _rows(summary)])
    for name in table.columns:
        known = table[name].dropna()
        if known.map(lambda value: isinstance(value, str)).nunique() > 1:  # a column of a file has one type
            table[name] = known.map(str)
    return table


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write the table in the format of the file's ending, in one step."""
    refuse_ending(path)
    content = _to_csv(table) if path.suffix == ".csv" else table.to_parquet(None, index=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, content)


def _to_csv(table: pd.DataFrame) -> bytes:
    return bytes(table.map(csv_cell).rename(columns=csv_cell).to_csv(index=False).encode())


def refuse_ending(path: Path) -> None:
    """Refuse, before any work, a file that cannot be written."""
    if path.suffix not in ENDINGS:
        raise UserError(f"{path}: a table ends in {' or '.join(ENDINGS)}, not in '{path.suffix}'")


def _rows(summary: Summary) -> list[dict[str, Any]]:
    settings = {f"setting.{key}": _cell(value) for key, value in flatten(summary.settings).items()}
    return [
        {
            "run": summary.digest,
            "round": line["round"],
            "seconds": line["seconds"],
            "missing": len(line["missing"]),
            **{name: line.get(name) for name in COSTS},
            **(line["model"] or {}),
            **{f"term.{name}": value for name, value in line["terms"].items()},
            **settings,
        }
        for line in summary.rounds
    ]


def _cell(value: Any) -> Any:
    """Return a value that a column can hold: lists and empty tables become words."""
    if value == "Infinity":  # as settings are written
        return math.inf
    return value if isinstance(value, str | int | float | None) else str(value)
