"""The report in a real browser, from the disk and with the network off."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.report_opening import DRAWN, make_runs
from faultless_page import faultless_page, sideways
from hostile import HOSTILE
from playwright.sync_api import Browser, Page
from small import small

from feddecorr.core.text import one_line
from feddecorr.report import figures
from feddecorr.report.page import Section, write_page
from feddecorr.report.runs_page import write_report
from feddecorr.runs.pipeline import run

PHONE = {"width": 390, "height": 800}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name, words in {"plain": [], "with<b>": ["regularizers=feddecorr"]}.items():
        list(run(*small("rounds=2", *words), folder / name))
    write_report([folder / "plain", folder / "with<b>"], folder / "report.html")
    return folder / "report.html"


@pytest.fixture(scope="module", params=[{}], ids=["wide"])
def opened(browser: Browser, report: Path, request: pytest.FixtureRequest) -> Iterator[Page]:
    """Open the report without a network; whatever the console says of errors fails the last test that looks at it."""
    with faultless_page(browser, offline=True, **request.param) as page:
        page.goto(report.as_uri())
        page.wait_for_function("document.querySelectorAll('.main-svg').length > 0")
        yield page


def test_every_figure_is_drawn(opened: Page) -> None:
    figures = opened.locator(".plotly-graph-div")
    assert figures.count() >= 5
    for figure in figures.all():
        assert figure.locator(".trace, .hm").count() > 0


def test_thirty_runs_of_three_hundred_rounds_are_a_small_page_that_draws(browser: Browser, tmp_path: Path) -> None:
    """How fast it opens is measured by benchmarks/report_opening.py."""
    page = tmp_path / "report.html"
    write_report(make_runs(tmp_path, 30, 300, small("rounds=1").experiment), page)
    assert page.stat().st_size < 15e6
    with faultless_page(browser, offline=True) as opened:
        opened.goto(page.as_uri())
        opened.wait_for_function(DRAWN)
        accuracy = "document.querySelectorAll('.plotly-graph-div')[1].data"
        assert opened.evaluate(f"{accuracy}.length") == 30
        assert opened.evaluate(f"{accuracy}.every(line => line.x.length === 300)")


def test_a_run_is_switched_off_in_all_figures_at_once_by_the_keyboard(opened: Page) -> None:
    lines = "[...document.querySelectorAll('.scatterlayer .trace')].length"
    before = opened.evaluate(lines)
    box = opened.get_by_label("FedAvg + FedDecorr")
    box.focus()
    opened.keyboard.press("Space")
    drawn = "[...document.querySelectorAll('.plotly-graph-div')]"
    shown = f"(name, on) => {drawn}.every(f => f.data.every(t => t.name !== name || (t.visible !== false) === on))"
    assert opened.evaluate(f"({shown})('FedAvg + FedDecorr', false)")
    assert opened.evaluate(f"({shown})('FedAvg', true)")
    assert opened.evaluate(lines) < before
    opened.keyboard.press("Space")
    assert opened.evaluate(lines) == before


def test_hovering_shows_values(opened: Page) -> None:
    plot = opened.locator(".plotly-graph-div").nth(1).locator(".nsewdrag")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    for share in (0.4, 0.5, 0.6):
        opened.mouse.move(box["x"] + share * box["width"], box["y"] + share * box["height"])
        opened.wait_for_timeout(200)
    assert opened.locator(".hoverlayer").nth(1).locator("text").count() > 0


@pytest.mark.parametrize("opened", [{"viewport": PHONE}], indirect=True, ids=["phone"])
def test_at_the_width_of_a_phone_nothing_is_cut_off(opened: Page) -> None:
    """The page does not scroll sideways: wide tables do so by themselves."""
    assert opened.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    for figure in opened.locator(".plotly-graph-div").all():
        box = figure.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= PHONE["width"]


def test_no_page_scrolls_sideways_at_any_width(browser: Browser, report: Path, tmp_path: Path) -> None:
    """Neither the report nor the page of a sweep with a long command and eight arms, light or dark, when resized."""
    command = f"feddecorr sweep {' '.join(f'--over=key.{number}=1,2' for number in range(30))}"
    names = [f"FedProx (μ = 0.{number}) + FedDecorr, α = 0.05" for number in range(8)]
    lines = figures.bands({name: ([1, 2], [0.0, 1.0], [0.1, 0.1]) for name in names}, "round", "accuracy (%)")
    table = Section("Table", "", headings=names, rows=[names])
    write_page(
        tmp_path / "sweep.html", "Sweep", "What it shows.", [Section("Lines", "", lines), table], command=command
    )
    with faultless_page(browser, offline=True) as page:
        for address in (report, tmp_path / "sweep.html"):
            page.goto(address.as_uri())
            page.wait_for_function(DRAWN)
            assert sideways(page) == [], address.name


def _brightness(page: Page) -> tuple[float, float]:
    colours = page.evaluate(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector('.xtitle')).fill]"
    )
    paper, ink = (sum(map(float, colour.strip("rgb()").split(","))) / 3 for colour in colours)
    return paper, ink


@pytest.mark.parametrize("opened", [{"color_scheme": "dark"}], indirect=True, ids=["dark"])
def test_it_is_dark_when_the_system_is_and_follows_when_that_changes(opened: Page) -> None:
    paper, ink = _brightness(opened)
    assert paper < 60
    assert ink > 180
    opened.emulate_media(color_scheme="light")
    opened.wait_for_timeout(300)
    paper, ink = _brightness(opened)
    assert paper > 180
    assert ink < 60


def test_names_are_drawn_as_they_are_and_are_no_links(browser: Browser, tmp_path: Path) -> None:
    """As a line's name, as a class along an axis, in tables, headings and text."""
    names = [*HOSTILE, "other"]
    lines = figures.bands({name: ([1, 2], [0.0, 1.0], [0.1, 0.1]) for name in names}, "x", "y")
    shades = figures.heatmap([[1.0] * len(names)], ("class", names), ("y", ["row"]))
    shades.update_xaxes(dtick=1)  # every one has room
    texts = [Section(text, text, headings=[text], rows=[[text]]) for text in HOSTILE]
    everything = " ".join(HOSTILE)
    sections = [Section("Figures", everything, figures={"lines": lines, "shades": shades}), *texts]
    write_page(tmp_path / "page.html", everything, everything, sections, switches=names)
    with faultless_page(browser, offline=True) as page:
        page.goto((tmp_path / "page.html").as_uri())
        page.wait_for_function(DRAWN)
        assert page.locator("svg a, main a").count() == 0
        assert page.locator("section").count() == len(sections)
        shown = [" ".join(one_line(name).split()) for name in names]
        for part in (".legendtext", ".xaxislayer-above .xtick text"):
            drawn = page.locator(part).all_text_contents()
            assert [" ".join(each.split()) for each in drawn][-len(names) :] == shown
        for place, name in enumerate(HOSTILE):
            page.locator("fieldset input").nth(place).uncheck()
            left = len(HOSTILE) - place
            assert page.locator(".scatterlayer .trace").count() == 3 * left, name  # a line and the edges of its band
