"""What a name does to its reader, by the readers' own programs: nothing; and it is still the name."""

import csv
import io
import re

from each import each
from hostile import HARMLESS_CELLS, HONEST, HOSTILE, acts
from jinja2 import Environment
from markdown_it import MarkdownIt
from matplotlib.text import Text

from feddecorr.core.text import (
    csv_cell,
    latex,
    markdown,
    markdown_code,
    matplotlib_text,
    one_line,
    plotly_text,
    visible,
)

every = each("text", [*HOSTILE, *HONEST])


def test_of_all_letters_those_that_act_are_spelled_and_no_others() -> None:
    for code in range(0x110000):
        letter = chr(code)
        assert (visible(letter) != letter) == acts(letter), hex(code)
    assert visible("a\x1b[0m\u202e\ud800\n\t") == "a\\x1b[0m\\u202e\\ud800\n\t"


@each("text", HONEST)
def test_an_honest_name_stays_as_it_is(text: str) -> None:
    assert visible(text) == one_line(text) == csv_cell(text) == matplotlib_text(text) == text
    assert markdown(text) == text


@every
def test_a_name_has_one_line(text: str) -> None:
    assert one_line(f"{text}\n{text}\t").splitlines() == [f"{one_line(text)}\\n{one_line(text)}\\t"]


@every
def test_markdown_shows_the_name_in_a_table_and_out_of_it(text: str) -> None:
    tokens = (
        MarkdownIt("commonmark")
        .enable(["table", "strikethrough"])
        .parse(f"# x {markdown(text)}.\n\n| a | b |\n| --- | --- |\n| x {markdown(text)}. | c |\n")
    )
    shown = [token for token in tokens if token.type == "inline"]
    assert [token.content for token in shown if token.content in ("a", "b", "c")] == ["a", "b", "c"]
    for token in (shown[0], shown[3]):
        assert {child.type for child in token.children or ()} <= {"text", "text_special"}
        assert "".join(child.content for child in token.children or ()) == f"x {one_line(text)}."
    assert not re.search(r"(?i)\b(https?|ftp)://|\bwww\.", markdown(text))  # which forges make links of


@every
def test_code_in_markdown_shows_the_name(text: str) -> None:
    if not text:
        return
    (inline,) = [token for token in MarkdownIt().parse(f"by {markdown_code(text)} done") if token.type == "inline"]
    kinds = [(child.type, child.content) for child in inline.children or ()]
    assert kinds == [("text", "by "), ("code_inline", one_line(text)), ("text", " done")]


@every
def test_a_cell_is_no_formula(text: str) -> None:
    stream = io.StringIO()
    csv.writer(stream).writerow([csv_cell(text), "next"])
    ((cell, after),) = csv.reader(io.StringIO(stream.getvalue()))
    assert after == "next"
    assert cell.removeprefix("'") == one_line(text)
    assert not re.match(r"[=+\-@\t\r\n]", cell) or re.fullmatch(r"[+-]?[\d.]+(e[+-]?\d+)?", cell)


def test_nor_is_a_part_of_it_where_semicolons_separate() -> None:
    written = str(csv_cell("a;=1+1; +2;b;\t@x;c-d"))
    assert not any(re.match(r"\s*[=+\-@]", cell) for cell in written.split(";"))
    assert written.replace("'", "") == "a;=1+1; +2;b;\\t@x;c-d"


@each("cell", HARMLESS_CELLS)
def test_numbers_stay_numbers(cell: str) -> None:
    assert csv_cell(cell) == cell
    assert [csv_cell(each) for each in (1, -0.5, None, True)] == [1, -0.5, None, True]


COMMANDS = {r"\textbackslash{}": "\\", r"\textasciitilde{}": "~", r"\textasciicircum{}": "^"}


@every
def test_latex_prints_the_name(text: str) -> None:
    """Read as TeX reads: a command, a letter in braces, or a letter that means itself."""
    read, rest = "", latex(text)
    while rest:
        (found,) = re.findall(r"^(?:\\text\w+\{\}|\\[&%$#_{}]|\{[\[\]*]\}|[^\\&%$#_{}~^\[\]*])", rest) or [""]
        assert found, rest
        read += COMMANDS.get(found, found.strip("{}") if len(found) == 3 else found[-1])
        rest = rest[len(found) :]
    assert read == one_line(text)


@every
def test_matplotlib_draws_the_name(text: str) -> None:
    drawn, formula = Text(text=matplotlib_text(text))._preprocess_math(matplotlib_text(text))  # type: ignore[attr-defined]
    assert formula is False
    assert drawn == one_line(text) or text == " "


@every
def test_plotly_has_nothing_to_parse(text: str) -> None:
    """That it then draws the name is tried in a browser."""
    assert "<" not in plotly_text(text)
    plain = Environment(autoescape=True).from_string("{{ text }}").render(text=one_line(text))
    assert plotly_text(text) == plain.replace("&gt;", ">").replace("&#34;", '"').replace("&#39;", "'")
