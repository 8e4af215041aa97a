"""HTML pages of text, tables and plotly figures that need no network, and the files of a study."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import product, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from plotly.io import to_json
from plotly.offline import get_plotlyjs

from feddecorr.core.files import write_bytes, write_json
from feddecorr.core.text import csv_cell, markdown, markdown_code, plotly_text, visible
from feddecorr.report import figures, printed
from feddecorr.report.picture import StudyContent
from feddecorr.results.study import Finding, Table

if TYPE_CHECKING:
    import plotly.graph_objects as go


@dataclass(frozen=True)
class Section:
    """A part of a page: heading, text, figure and table; `figures` and `blocks` of sentences, by title, in columns."""

    heading: str
    text: str
    figure: go.Figure | None = None
    headings: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    figures: Mapping[str, go.Figure] = field(default_factory=dict)
    blocks: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @cached_property
    def drawings(self) -> list[tuple[str, str]]:
        """All figures as JSON, which no text in them can end early, with their titles."""
        drawn = [*([] if self.figure is None else [("", self.figure)]), *self.figures.items()]
        plain = [(title, _plain(figure.to_plotly_json())) for title, figure in drawn]
        return [(title, to_json(figure, validate=False).replace("<", "\\u003c")) for title, figure in plain]


OURS = ("template", "hovertemplate", "texttemplate")
"""Parts of a figure in which all text is ours."""


def _plain(part: Any, key: str = "") -> Any:
    """Return a part of a figure with all text escaped; switches find lines by the names of their groups."""
    if isinstance(part, dict):
        return {name: value if name in OURS else _plain(value, name) for name, value in part.items()}
    if isinstance(part, list | tuple):
        return [_plain(each, key) for each in part]
    if isinstance(part, str):
        return visible(part) if key == "legendgroup" else plotly_text(part)
    return part


def write_page(
    path: Path, title: str, lead: str, sections: Sequence[Section], *, switches: Sequence[str] = (), command: str = ""
) -> None:
    """Write the page; `switches` are names of lines that can be hidden in all figures at once."""
    html = render_page(title, lead, sections, switches=switches, command=command)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, html.encode())


def render_page(
    title: str,
    lead: str,
    sections: Sequence[Section],
    *,
    switches: Sequence[str] = (),
    command: str = "",
    live: str = "",
) -> str:
    """Return the page; a `live` one, of that ETag, loads plotly and every change from its server.

    The `command` is the one that made what is shown.
    """
    plotly = "" if live else _plotly()
    page = _templates().get_template("page.html")
    return page.render(
        title=title, lead=lead, sections=sections, switches=switches, command=command, plotly=plotly, live=live
    )


_plotly = cache(get_plotlyjs)


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("feddecorr.report"), autoescape=True, undefined=StrictUndefined, finalize=_seen
    )


def _seen(value: Any) -> Any:
    """Return text with control characters made visible; our own markup stays."""
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def write_study(study: StudyContent, directory: Path) -> list[Path]:
    """Write a study's page, numbers and arrays into a directory, and its pictures if matplotlib (an extra) is there.

    Returns the files, the page first.
    """
    directory.mkdir(parents=True, exist_ok=True)
    page, result, arrays = (directory / name for name in ("index.html", "result.json", "arrays.npz"))
    sections = [Section(picture.heading, picture.text, figures.draw(picture)) for picture in study.pictures]
    table = Section("At a glance", "", headings=study.headings, rows=study.rows)
    write_page(page, study.title, study.lead, [table, *sections])
    write_json(result, study.document)
    np.savez_compressed(arrays, allow_pickle=False, **study.arrays)
    written = [page, result, arrays]
    for picture in study.pictures if printed.is_available() else ():
        written.append(directory / f"{picture.file}.svg")
        printed.save(picture, written[-1])
    return written


@dataclass(frozen=True)
class Document:
    """The tables and figures of a study; `made` says of what, and `command` how."""

    name: str
    lead: str
    made: str
    command: str
    findings: Sequence[Finding]

    def write(self, out: Path) -> list[Path]:
        """Write `NAME.md`, `NAME.html` and `NAME/*.csv`, and return the files in this order."""
        parts = [f"# {markdown(self.name)}", markdown(self.lead), f"{self.made} {markdown_code(self.command)}"]
        sections, tables = [], []
        (out / self.name).mkdir(parents=True, exist_ok=True)
        for finding, file in zip(self.findings, _file_names([each.title for each in self.findings]), strict=True):
            tables.append(out / self.name / f"{file}.csv")
            parts += [f"## {markdown(finding.title)}", *([markdown(finding.note)] if finding.note else [])]
            if isinstance(finding, Table):
                sections.append(Section(finding.title, finding.note, headings=finding.headings, rows=finding.rows))
                _write_csv(tables[-1], [finding.headings, *finding.rows])
                rows = [finding.headings, ["---"] * len(finding.headings), *finding.rows]
                parts.append("\n".join(f"| {' | '.join(map(markdown, row))} |" for row in rows))
            else:
                figure = finding.draw()
                sections.append(Section(finding.title, finding.note, figure))
                _write_csv(tables[-1], points(figure))
                page, numbers = map(_markdown_link, (f"{self.name}.html", f"{self.name}/{file}.csv"))
                parts.append(f"Drawn in {page}; its points are in {numbers}.")
        text, html = out / f"{self.name}.md", out / f"{self.name}.html"
        write_bytes(text, ("\n\n".join(parts) + "\n").encode())
        write_page(html, self.name, f"{self.lead} {self.made}", sections, command=self.command)
        return [text, html, *tables]


def _file_names(titles: Sequence[str]) -> list[str]:
    """Return file names from the titles, with a number where two would be the same."""
    plain = [re.sub(r"[^a-z0-9.]+", "-", title.lower()).strip("-.") or "finding" for title in titles]
    counts = [plain[:place].count(name) for place, name in enumerate(plain)]
    return [f"{name}-{count + 1}" if count else name for name, count in zip(plain, counts, strict=True)]


def _markdown_link(file: str) -> str:
    return f"[{markdown(file)}]({quote(file)})"


def _write_csv(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(map(csv_cell, row) for row in rows)
    write_bytes(path, stream.getvalue().encode())


def points(figure: Any) -> list[list[Any]]:
    """Return all points of a plotly figure, with the name of their line; a shaded table has one for each cell."""
    rows: list[list[Any]] = [["series", "x", "y", "z"]]
    for trace in figure.data:
        x, y, z = (_values(trace, axis) for axis in "xyz")
        if np.ndim(z) == 2:
            shape = np.shape(z)
            cells = product(enumerate(y or range(shape[0])), enumerate(x or range(shape[1])))
            found = [(across, down, z[row][column]) for (row, down), (column, across) in cells]
        else:
            found = list(zip_longest(x, y, z, fillvalue=""))
        rows += [[trace.name or "", *point] for point in found]
    return rows


def _values(trace: Any, axis: str) -> list[Any]:
    values = getattr(trace, axis, None)
    return [] if values is None else list(np.asarray(values).tolist())
