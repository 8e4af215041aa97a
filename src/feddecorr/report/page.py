"""One HTML page of text, tables and plotly figures, with all that it needs inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from feddecorr.files import write_bytes

if TYPE_CHECKING:
    import plotly.graph_objects as go

CONFIG = {"displaylogo": False, "responsive": True}
"""Figures are as wide as the page."""


@dataclass(frozen=True)
class Section:
    """A heading, a few sentences, and a table or a figure or both."""

    heading: str
    text: str
    figure: go.Figure | None = None
    headings: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()

    @property
    def drawing(self) -> str:
        """The figure as HTML, without the library that draws it."""
        if self.figure is None:
            return ""
        drawn: str = self.figure.to_html(full_html=False, include_plotlyjs=False, config=CONFIG)
        return drawn


def write_page(path: Path, title: str, lead: str, sections: Sequence[Section], *, switches: Sequence[str] = ()) -> None:
    """Write the page in one step; `switches` are names of lines that can be switched off in all figures at once."""
    templates = Environment(loader=PackageLoader("feddecorr.report"), autoescape=True, undefined=StrictUndefined)
    page = templates.get_template("page.html")
    html = page.render(title=title, lead=lead, sections=sections, switches=switches, plotly=get_plotlyjs())
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, html.encode())
