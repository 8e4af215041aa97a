"""Tables and figures as files: Markdown, CSV, and a page that opens with no network."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from feddecorr.core.files import write_bytes
from feddecorr.core.text import csv_cell, markdown
from feddecorr.report.page import Section, write_page
from feddecorr.results.study import Finding, Table

if TYPE_CHECKING:
    import plotly.graph_objects as go


@dataclass(frozen=True)
class Document:
    """All that is written of a study: `notes` are sentences, in Markdown, about how it was made and what is missing."""

    name: str
    lead: str
    notes: Sequence[str]
    findings: Sequence[Finding]

    def write(self, out: Path) -> list[Path]:
        """Write `NAME.md`, `NAME.html` and `NAME/*.csv`, and return the files in this order."""
        drawn = [None if isinstance(finding, Table) else finding.draw() for finding in self.findings]
        tables = [out / self.name / f"{name}.csv" for name in _file_names([each.title for each in self.findings])]
        (out / self.name).mkdir(parents=True, exist_ok=True)
        for finding, figure, file in zip(self.findings, drawn, tables, strict=True):
            _write_csv(file, [finding.headings, *finding.rows] if isinstance(finding, Table) else points(figure))
        markdown, page = out / f"{self.name}.md", out / f"{self.name}.html"
        write_bytes(markdown, self._markdown(tables).encode())
        write_page(page, self.name, " ".join([self.lead, *self.notes]), list(self._sections(drawn)))
        return [markdown, page, *tables]

    def _markdown(self, tables: Sequence[Path]) -> str:
        parts = [f"# {markdown(self.name)}", markdown(self.lead), *self.notes]
        for finding, file in zip(self.findings, tables, strict=True):
            parts += [f"## {markdown(finding.title)}", *([markdown(finding.note)] if finding.note else [])]
            if isinstance(finding, Table):
                rule = "|".join(["", *([" --- "] * len(finding.headings)), ""])
                parts.append("\n".join([_markdown_row(finding.headings), rule, *map(_markdown_row, finding.rows)]))
            else:
                page, numbers = map(_markdown_link, (f"{self.name}.html", f"{self.name}/{file.name}"))
                parts.append(f"Drawn in {page}; its points are in {numbers}.")
        return "\n\n".join(parts) + "\n"

    def _sections(self, drawn: Sequence[go.Figure | None]) -> Iterator[Section]:
        for finding, figure in zip(self.findings, drawn, strict=True):
            headings, rows = (finding.headings, finding.rows) if isinstance(finding, Table) else ((), ())
            yield Section(finding.title, finding.note, figure, headings, rows)


def _file_names(titles: Sequence[str]) -> list[str]:
    """Return names that tell the titles, with a number where two would be the same."""
    plain = [re.sub(r"[^a-z0-9.]+", "-", title.lower()).strip("-.") or "finding" for title in titles]
    counts = [plain[:place].count(name) for place, name in enumerate(plain)]
    return [f"{name}-{count + 1}" if count else name for name, count in zip(plain, counts, strict=True)]


def _markdown_link(file: str) -> str:
    return f"[{markdown(file)}]({quote(file)})"


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(markdown, cells))} |"


def _write_csv(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(map(csv_cell, row) for row in rows)
    write_bytes(path, stream.getvalue().encode())


def points(figure: Any) -> list[list[Any]]:
    """Return all points of a plotly figure, with the name of their line; a shaded table has one for each cell."""
    rows: list[list[Any]] = [["series", "x", "y", "z"]]
    for trace in figure.data:
        rows += [[trace.name or "", *point] for point in _points(*(_values(trace, axis) for axis in "xyz"))]
    return rows


def _points(x: list[Any], y: list[Any], z: list[Any]) -> Iterator[tuple[Any, Any, Any]]:
    if np.ndim(z) == 2:
        for row, cells in enumerate(z):
            for column, cell in enumerate(cells):
                yield x[column] if x else column, y[row] if y else row, cell
        return
    for place in range(max(len(x), len(y), len(z))):
        yield tuple(values[place] if values else "" for values in (x, y, z))  # type: ignore[misc]  # three of them


def _values(trace: Any, axis: str) -> list[Any]:
    values = getattr(trace, axis, None)
    return [] if values is None else list(np.asarray(values).tolist())
