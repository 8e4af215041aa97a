from xml.etree import ElementTree

import numpy as np
import pytest

from feddecorr.report.picture import Line, Panel, Picture, fan, shades
from feddecorr.report.study_page import draw
from feddecorr.report.svg import logarithmic_ticks, ticks, to_svg

X = np.linspace(0, 4, 5)
LINES = Picture(
    "a", "Lines & points", "", ("x", "y"), [Panel("<b>", [*fan(X, np.outer(X, [1, 2])), Line(X, X, "#123456", "n")])]
)
CELLS = Picture("b", "Cells", "", ("k", "k'"), [Panel("", matrix=np.eye(3)), Panel("", matrix=np.ones((3, 3)))])


@pytest.mark.parametrize(("picture", "tag", "count"), [(LINES, "path", 3), (CELLS, "rect", 18)])
def test_pictures_are_well_formed(picture: Picture, tag: str, count: int) -> None:
    """Any title makes valid XML, with a shape for every line or cell."""
    root = ElementTree.fromstring(to_svg(picture))  # noqa: S314 - our own text
    assert len(root.findall(f"{{http://www.w3.org/2000/svg}}{tag}")) >= count
    assert root.findtext("{http://www.w3.org/2000/svg}title") == picture.heading


def test_a_logarithmic_picture_leaves_out_what_has_no_logarithm() -> None:
    """Zeros are not drawn, and the bounds are those of the rest."""
    picture = Picture(
        "a", "", "", ("x", "y"), [Panel("", [Line(X, [0, 1, 10, 100, 1000], "#000000")])], logarithmic=True
    )
    assert picture.bounds() == (0, 4, 1, 1000)
    assert to_svg(picture).count("L") == 3


def test_figures_have_a_trace_for_every_line_and_matrix() -> None:
    """The page shows what the file shows."""
    assert len(draw(LINES).data) == 3
    assert [trace.type for trace in draw(CELLS).data] == ["heatmap", "heatmap"]


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(0, 20, [0, 5, 10, 15, 20]), (-1, 1, [-1, -0.5, 0, 0.5, 1]), (3, 3, [3])]
)
def test_ticks_are_round_numbers(low: float, high: float, expected: list[float]) -> None:
    """Ends that are round are ticks themselves; a range of nothing has one."""
    assert ticks(low, high) == pytest.approx(expected)


def test_ticks_of_logarithms_are_decades_or_parts_of_them() -> None:
    """A wide range shows powers of ten, a narrow one 1, 2 and 5 as well."""
    assert logarithmic_ticks(-10, 0) == [-10, -8, -6, -4, -2, 0]
    assert logarithmic_ticks(0, 1) == pytest.approx(np.log10([1, 2, 5, 10]))


def test_shades_go_from_dark_to_light() -> None:
    """As many colours as asked, the first the darkest."""
    first, *_, last = shades(5)
    assert len(shades(1)) == 1
    assert int(first[1:3], 16) < int(last[1:3], 16)
