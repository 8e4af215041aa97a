"""Any runs as a table for a paper: mean ± standard deviation over seeds, the best of each column marked."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from feddecorr.core.text import csv_cell, latex, markdown
from feddecorr.errors import UserError
from feddecorr.results.cells import NOT_MEASURED, Cell
from feddecorr.results.groups import group_runs, name_cell, short_name
from feddecorr.results.sample import Sample
from feddecorr.results.summary import STATISTICS, Summary

FACTORS = {"accuracy": (100.0, 2)}
"""Measures that are shown in percent, and their digits."""

DIGITS = 2


@dataclass(frozen=True)
class TableEntry:
    """A number of a table: of no seed at all where it was not measured."""

    sample: Sample
    digits: int
    best: bool = False

    @property
    def parts(self) -> tuple[str, str | None] | None:
        """The mean and, of several seeds, the deviation."""
        if not self.sample.values:
            return None
        mean = f"{self.sample.mean:.{self.digits}f}"
        return mean, f"{self.sample.deviation:.{self.digits}f}" if len(self.sample) > 1 else None


@dataclass(frozen=True)
class ResultTable:
    """Rows of labels and entries."""

    labels: Sequence[str]
    columns: Sequence[str]
    rows: Sequence[tuple[Sequence[str], Sequence[TableEntry]]]

    @property
    def headings(self) -> list[str]:
        """The names of all columns."""
        return [*self.labels, *self.columns]

    def to_dict(self) -> list[dict[str, Any]]:
        """Return it ready for JSON, a mapping for each row."""
        return [
            {
                **dict(zip(self.labels, labels, strict=True)),
                "values": {
                    column: {
                        "mean": entry.sample.mean if entry.sample.values else None,
                        "deviation": entry.sample.deviation if len(entry.sample) > 1 else None,
                        "seeds": len(entry.sample),
                        "best": entry.best,
                    }
                    for column, entry in zip(self.columns, entries, strict=True)
                },
            }
            for labels, entries in self.rows
        ]


def tabulate(
    summaries: Sequence[Summary],
    *,
    by: Sequence[str] = (),
    columns: str | None = None,
    measure: str = "accuracy",
    statistic: str = "last",
) -> ResultTable:
    """Group runs by what differs between them, and show a measure; the largest mean of each column is the best.

    Without `columns`, these are the three statistics: last round, mean of the last ten, best. With a setting, they
    are its values, and show one statistic.
    """
    if statistic not in STATISTICS:
        raise UserError(f"the statistic is one of {', '.join(STATISTICS)}, not '{statistic}'")
    factor, digits = FACTORS.get(measure, (1.0, DIGITS))
    cells = group_runs(summaries, [*by, *([columns] if columns else [])])
    settings = [name for name in cells[0].labels if name != columns]
    rows: dict[tuple[str, ...], dict[str, Sample]] = {}
    for cell in cells:
        found = rows.setdefault(tuple(str(cell.labels[name]) for name in settings), {})
        for column, chosen in _columns(cell, columns, statistic):
            found[column] = cell.sample(chosen, measure).times(factor)
    if not any(sample.values for row in rows.values() for sample in row.values()):
        raise UserError(f"no run has measured '{measure}': choose one such as accuracy, loss, effective_rank")
    names = list(dict.fromkeys(column for row in rows.values() for column in row))
    best = {name: max((row[name].mean for row in rows.values() if _known(row, name)), default=None) for name in names}
    entries = [
        (
            labels,
            [
                TableEntry(row.get(name, Sample({})), digits, best=_known(row, name) and row[name].mean == best[name])
                for name in names
            ],
        )
        for labels, row in rows.items()
    ]
    return ResultTable([short_name(name) for name in settings], names, entries)


def _columns(cell: Cell, columns: str | None, statistic: str) -> Iterator[tuple[str, str]]:
    """Yield the columns that a cell has something for, and the statistic of each."""
    if columns is None:
        yield from ((name, key) for key, name in STATISTICS.items())
    else:
        yield name_cell(cell, [columns]), statistic


def _known(row: dict[str, Sample], name: str) -> bool:
    return name in row and bool(row[name].values)


def _plain(entry: TableEntry) -> str:
    if entry.parts is None:
        return NOT_MEASURED
    mean, deviation = entry.parts
    return mean if deviation is None else f"{mean} ± {deviation}"


def to_text(table: ResultTable) -> list[list[str]]:
    """Return the rows as plain words; the best has an asterisk."""
    return [[*labels, *(_plain(each) + "*" * each.best for each in entries)] for labels, entries in table.rows]


def to_markdown(table: ResultTable) -> str:
    """Return the table in Markdown."""

    def cell(entry: TableEntry) -> str:
        return f"**{_plain(entry)}**" if entry.best else _plain(entry)

    lines = [list(map(markdown, table.headings)), ["---"] * len(table.labels) + ["---:"] * len(table.columns)]
    lines += [[*map(markdown, labels), *map(cell, entries)] for labels, entries in table.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def to_latex(table: ResultTable) -> str:
    """Return the table in LaTeX, for the package booktabs."""

    def cell(entry: TableEntry) -> str:
        if entry.parts is None:
            return "--"
        mean, deviation = entry.parts
        inner = rf"\mathbf{{{mean}}}" if entry.best else mean
        return f"${inner}$" if deviation is None else rf"${inner} \pm {deviation}$"

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
            mean, deviation = entry.parts or ("", "")
            numbers += [mean, deviation or "", len(entry.sample)]
        writer.writerow([*map(csv_cell, labels), *numbers])
    return stream.getvalue().rstrip("\n")


FORMATS: dict[str, Callable[[ResultTable], str]] = {"markdown": to_markdown, "latex": to_latex, "csv": to_csv}
"""How a table can be written, besides plain text."""
