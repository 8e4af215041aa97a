"""What a study leaves in a directory: a page, its figures as JSON and as arrays, its pictures as SVG."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from plotly import graph_objects as go
from plotly.subplots import make_subplots

from feddecorr.core.files import write_json
from feddecorr.report import printed
from feddecorr.report.page import Section, write_page
from feddecorr.report.picture import Picture
from feddecorr.report.study_content import StudyContent


def write_study(study: StudyContent, directory: Path) -> list[Path]:
    """Write all of a study into a directory and return the files, the page first.

    Pictures as files of their own take matplotlib, an extra; the page has them in any case.
    """
    directory.mkdir(parents=True, exist_ok=True)
    page, result, arrays = (directory / name for name in ("index.html", "result.json", "arrays.npz"))
    sections = [Section(picture.heading, picture.text, draw(picture)) for picture in study.pictures]
    table = Section("At a glance", "", headings=study.headings, rows=study.rows)
    write_page(page, study.title, study.lead, [table, *sections])
    write_json(result, study.document)
    np.savez_compressed(arrays, allow_pickle=False, **study.arrays)
    pictures = study.pictures if printed.is_available() else []
    files = [directory / f"{picture.file}.svg" for picture in pictures]
    for picture, file in zip(pictures, files, strict=True):
        printed.save(picture, file)
    return [page, result, arrays, *files]


def draw(picture: Picture) -> go.Figure:
    """Return the picture as a plotly figure."""
    titles = [panel.title for panel in picture.panels]
    figure = make_subplots(1, len(titles), subplot_titles=titles, shared_yaxes=True, horizontal_spacing=0.04)
    for number, panel in enumerate(picture.panels, start=1):
        for line in panel.lines:
            mode = (
                {"mode": "markers", "marker": {"color": line.colour, "size": 5}} if line.points else {"mode": "lines"}
            )
            figure.add_scatter(
                x=list(map(float, line.x)),
                y=list(map(float, line.y)),
                name=line.name,
                legendgroup=line.name,
                showlegend=bool(line.name) and number == 1,
                line_color=line.colour,
                row=1,
                col=number,
                **mode,
            )
        if panel.matrix is not None:
            places = [str(k + 1) for k in range(len(panel.matrix))]
            figure.add_heatmap(
                z=panel.matrix.tolist(),
                x=places,
                y=places,
                zmin=0,
                zmax=1,
                colorscale="Blues",
                showscale=number == 1,
                row=1,
                col=number,
            )
            figure.update_yaxes(autorange="reversed")
    figure.update_layout(template="plotly_white", height=420, margin={"l": 60, "r": 20, "t": 60, "b": 50})
    figure.update_xaxes(title=picture.axes[0])
    figure.update_yaxes(title=picture.axes[1], col=1)
    if picture.include:
        figure.update_yaxes(range=[min(picture.include) - 0.05, max(picture.include) + 0.05])
    if picture.logarithmic:
        figure.update_yaxes(type="log", exponentformat="power")
    return figure
