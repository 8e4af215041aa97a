import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from feddecorr.errors import UserError
from feddecorr.report import printed
from feddecorr.report.figures import draw
from feddecorr.report.picture import FIXED, Panel, Picture, Series, colour_names, colours, fan, line_styles, shades
from feddecorr.results.names import name_arm
from feddecorr.results.study import Labels

X = np.linspace(0, 4, 5)
LINES = Picture(
    "a",
    "Lines & points",
    "",
    ("x", "y"),
    [Panel("<b>", [*fan(X, np.outer(X, [1, 2])), Series(X, X, "#123456", "n", spread=[0.1] * 5)])],
)
CELLS = Picture("b", "Cells", "", ("k", "k'"), [Panel("", matrix=np.eye(3)), Panel("", matrix=np.ones((3, 3)))])
CLOUD = Picture("c", "Sphere", "", ("", ""), [Panel("", cloud={"class 0": np.eye(3), "class 1": -np.eye(3)})])


@pytest.mark.parametrize("picture", [LINES, CELLS, CLOUD], ids=["lines", "cells", "cloud"])
@pytest.mark.parametrize("ending", [".pdf", ".svg", ".png"])
def test_every_picture_is_printed_in_every_format_and_always_as_the_same_file(
    picture: Picture, ending: str, tmp_path: Path
) -> None:
    files = [tmp_path / f"{number}{ending}" for number in range(2)]
    for file in files:
        printed.save(picture, file)
    first, second = (file.read_bytes() for file in files)
    assert first == second
    if ending == ".svg":
        ElementTree.fromstring(first)  # noqa: S314 - our own text
    elif ending == ".png":
        with Image.open(files[0]) as image:
            assert image.width > 900
    else:
        assert first.startswith(b"%PDF")


def test_fonts_are_embedded(tmp_path: Path) -> None:
    """Every font of the pdf carries its own outlines, and an svg has no text that a font would be needed for."""
    printed.save(LINES, tmp_path / "a.pdf")
    pdf = (tmp_path / "a.pdf").read_bytes()
    fonts = pdf.count(b"/Type /FontDescriptor")
    assert fonts > 0
    assert pdf.count(b"/FontFile2") == fonts
    printed.save(LINES, tmp_path / "a.svg")
    assert "<text" not in (tmp_path / "a.svg").read_text()


def test_one_panel_fills_a_column_and_more_fill_the_page() -> None:
    assert printed.draw(LINES).get_figwidth() == printed.COLUMN
    assert printed.draw(CELLS).get_figwidth() == printed.PAGE


def test_lines_bands_and_cells_are_where_the_picture_says() -> None:
    (axis,) = printed.draw(LINES).axes
    np.testing.assert_array_equal(np.asarray(axis.lines[1].get_xydata()), np.column_stack([X, 2 * X]))
    (band,) = axis.collections
    edges = np.asarray(band.get_paths()[0].vertices)
    assert (edges[:, 1].min(), edges[:, 1].max()) == (-0.1, 4.1)
    assert axis.get_title() == "<b>"
    shown = [axis.images[0].get_array() for axis in printed.draw(CELLS).axes]
    assert [np.asarray(cells).tolist() for cells in shown] == [np.eye(3).tolist(), np.ones((3, 3)).tolist()]


def test_what_is_to_be_in_view_is() -> None:
    picture = Picture("a", "", "", ("x", "y"), [Panel("", [Series(X, X, "#000000")])], include=(-3.0, 9.0))
    low, high = printed.draw(picture).axes[0].get_ylim()
    assert low <= -3
    assert high >= 9


def test_legends_name_each_line_once() -> None:
    named = [Series(X, X, "#000000", "one"), Series(X, -X, "#ff0000", "two")]
    figure = printed.draw(Picture("a", "", "", ("x", "y"), [Panel("l", named), Panel("r", named)]))
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["one", "two"]


def test_other_formats_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=re.escape("ends in .pdf, .svg, .png, not in '.jpg'")):
        printed.save(LINES, tmp_path / "a.jpg")
    monkeypatch.setattr(printed, "find_spec", lambda _: None)
    with pytest.raises(UserError, match=re.escape("pip install 'feddecorr[figures]'")):
        printed.save(LINES, tmp_path / "a.pdf")


def test_figures_have_a_trace_for_every_line_and_matrix() -> None:
    """The page shows what the file shows: three lines, one of them in a band with two edges."""
    assert len(draw(LINES).data) == 3 + 2
    assert [trace.type for trace in draw(CELLS).data] == ["heatmap", "heatmap"]


def test_shades_go_from_dark_to_light() -> None:
    """As many colours as asked, the first the darkest."""
    first, *_, last = shades(5)
    assert len(shades(1)) == 1
    assert int(first[1:3], 16) < int(last[1:3], 16)


def test_an_answer_has_its_colour_in_every_figure() -> None:
    """Whatever is drawn with it, and in both renderers; no other line has that colour."""
    assert colour_names(["one", "not true", "true"]) == {**colour_names(["true", "not true"]), "one": colours(3)[2]}
    named = [Series(X, X, name="other"), Series(X, -X, name="not true")]
    picture = Picture("a", "", "", ("x", "y"), [Panel("l", named[::-1]), Panel("r", named)])
    pages = {trace.line.color for trace in draw(picture).data if trace.name == "not true"}
    printed_ones = [
        line for axis in printed.draw(picture).axes for line in axis.lines if line.get_label() == "not true"
    ]
    assert pages == {line.get_color() for line in printed_ones} == {FIXED["not true"]}


def styles(*arms: Labels) -> list[tuple[str, int]]:
    names = {name_arm(labels).whole: name_arm(labels) for labels in arms}
    return list(line_styles(names).values())


def test_colour_tells_the_method_and_dash_the_regularizer() -> None:
    """Whatever else is drawn: the same arm has the same look in every figure."""
    plain: Labels = {"method": "fedavg", "regularizers": "none"}
    moon: Labels = {"method": "moon", "regularizers": "none"}
    cured: Labels = {"method": "fedavg", "regularizers": "feddecorr"}
    (blue, solid), (also_blue, dashed) = styles(plain, cured)
    assert (blue, solid) == (also_blue, 0)
    assert dashed != solid
    assert styles(moon, cured, plain)[1:] == [(blue, dashed), (blue, solid)]
    assert styles(moon)[0] == styles(plain, moon)[1]
    assert styles(moon)[0][0] != blue


def test_settings_of_one_method_have_colours_of_their_own() -> None:
    """The first has the method's; those of a regularizer share its dash."""
    alphas: list[Labels] = [{"method": "fedavg", "alpha": alpha} for alpha in (0.05, 0.5, "inf")]
    found = styles(*alphas, {"method": "moon", "alpha": 0.05})
    assert len({colour for colour, _ in found}) == 4
    assert found[0] == styles({"method": "fedavg"})[0]
    betas: list[Labels] = [
        {"method": "fedavg", "regularizers": "feddecorr", "regularizers.feddecorr.beta": beta} for beta in (0.1, 0.2)
    ]
    (first, dash), (second, same) = styles(*betas)
    assert (first != second, dash) == (True, same)


def test_no_two_colours_are_the_same() -> None:
    """However many classes there are; the first ones stay when there are more."""
    assert len(set(colours(200))) == 200
    assert colours(200)[:10] == colours(10)
