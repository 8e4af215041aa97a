import csv
from pathlib import Path

from plotly import graph_objects as go

from feddecorr.report.page import Document, points
from feddecorr.results.study import Figure, Table

TABLE = Table("Accuracy, α | β", ["what", "value"], [["a|b", "1.0 ± 0.1"], ["c", "missing"]], "Mean over seeds.")


def draw() -> go.Figure:
    return go.Figure([go.Scatter(x=[1, 2], y=[0.5, 0.25], name="one"), go.Scatter(x=[1], y=[0.125], name="two")])


def test_everything_is_there_as_markdown_csv_and_page(tmp_path: Path) -> None:
    document = Document("own", "What it shows.", "Made of that by:", "make it", [TABLE, Figure("Curves", draw), TABLE])
    markdown, page, *tables = document.write(tmp_path / "out")
    text = markdown.read_text()
    assert "| a\\|b | 1.0 ± 0.1 |\n| c | missing |" in text
    assert all(
        part in text
        for part in ("# own", "What it shows.", "Made of that by: `make it`", r"## Accuracy, α \| β", "## Curves")
    )
    assert [table.relative_to(tmp_path / "out").as_posix() for table in tables] == [
        "own/accuracy.csv",
        "own/curves.csv",
        "own/accuracy-2.csv",
    ]
    assert list(csv.reader(tables[0].read_text().splitlines())) == [
        ["what", "value"],
        ["a|b", "1.0 ± 0.1"],
        ["c", "missing"],
    ]
    html = page.read_text()
    assert "<code>make it</code>" in html
    assert "`" not in html.rpartition("<body>")[2].partition("<script")[0]
    assert "1.0 ± 0.1" in html
    assert html.count('class="plotly-graph-div"') >= 1
    assert all((tmp_path / "out" / link).is_file() for link in ("own/curves.csv", "own.html") if link in text)


def test_the_points_of_a_figure_are_those_that_were_drawn() -> None:
    assert points(draw()) == [
        ["series", "x", "y", "z"],
        ["one", 1, 0.5, ""],
        ["one", 2, 0.25, ""],
        ["two", 1, 0.125, ""],
    ]
    shades = go.Figure(go.Heatmap(z=[[1, 2], [3, 4]], x=["a", "b"], y=["c", "d"]))
    assert points(shades)[1:] == [["", "a", "c", 1], ["", "b", "c", 2], ["", "a", "d", 3], ["", "b", "d", 4]]
    sphere = go.Figure(go.Scatter3d(x=[1], y=[2], z=[3], name="s"))
    assert points(sphere)[1:] == [["s", 1, 2, 3]]
