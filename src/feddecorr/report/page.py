"""One HTML page of text, tables and plotly figures, with all that it needs inside; and what a study leaves behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from plotly.io import to_json
from plotly.offline import get_plotlyjs

from feddecorr.core.files import write_bytes, write_json
from feddecorr.core.text import plotly_text, visible
from feddecorr.report import figures, printed
from feddecorr.report.picture import StudyContent

if TYPE_CHECKING:
    import plotly.graph_objects as go


@dataclass(frozen=True)
class Section:
    """A heading, a few sentences, and what belongs to them.

    `blocks` are a few sentences each and `figures` several pictures, by what stands above them: they lie side by side
    as far as the page is wide enough.
    """

    heading: str
    text: str
    figure: go.Figure | None = None
    headings: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    figures: Mapping[str, go.Figure] = field(default_factory=dict)
    blocks: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def drawings(self) -> list[tuple[str, str]]:
        """All figures as JSON that no text in them can end, with what stands above."""
        drawn = [*([] if self.figure is None else [("", self.figure)]), *self.figures.items()]
        return [(title, to_json(_plain(figure.to_plotly_json())).replace("<", "\\u003c")) for title, figure in drawn]


OURS = ("template", "hovertemplate", "texttemplate")
"""Parts of a figure that hold no text of others."""


def _plain(part: Any, key: str = "") -> Any:
    """Return a part of a figure in which all text is drawn as it is; lines are found by the names of their groups."""
    if isinstance(part, dict):
        return {name: value if name in OURS else _plain(value, name) for name, value in part.items()}
    if isinstance(part, list | tuple):
        return [_plain(each, key) for each in part]
    if isinstance(part, str):
        return visible(part) if key == "legendgroup" else plotly_text(part)
    return part


def write_page(path: Path, title: str, lead: str, sections: Sequence[Section], *, switches: Sequence[str] = ()) -> None:
    """Write the page in one step; `switches` are names of lines that can be switched off in all figures at once."""
    html = render_page(title, lead, sections, switches=switches)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, html.encode())


def render_page(
    title: str, lead: str, sections: Sequence[Section], *, switches: Sequence[str] = (), live: str = ""
) -> str:
    """Return the page; one that is `live` asks its server for news since that mark, and for the library that draws."""
    templates = Environment(
        loader=PackageLoader("feddecorr.report"), autoescape=True, undefined=StrictUndefined, finalize=_seen
    )
    plotly = "" if live else get_plotlyjs()
    page = templates.get_template("page.html")
    return page.render(title=title, lead=lead, sections=sections, switches=switches, plotly=plotly, live=live)


def _seen(value: Any) -> Any:
    """Return text of a page as it can be seen; what is markup of ours stays."""
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def write_study(study: StudyContent, directory: Path) -> list[Path]:
    """Write all of a study into a directory and return the files, the page first.

    Pictures in separate files need matplotlib, an extra; the page always has them.
    """
    directory.mkdir(parents=True, exist_ok=True)
    page, result, arrays = (directory / name for name in ("index.html", "result.json", "arrays.npz"))
    sections = [Section(picture.heading, picture.text, figures.draw(picture)) for picture in study.pictures]
    table = Section("At a glance", "", headings=study.headings, rows=study.rows)
    write_page(page, study.title, study.lead, [table, *sections])
    write_json(result, study.document)
    np.savez_compressed(arrays, allow_pickle=False, **study.arrays)
    pictures = study.pictures if printed.is_available() else []
    files = [directory / f"{picture.file}.svg" for picture in pictures]
    for picture, file in zip(pictures, files, strict=True):
        printed.save(picture, file)
    return [page, result, arrays, *files]
