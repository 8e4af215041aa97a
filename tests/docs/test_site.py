"""The documentation's site is whole: built without a warning, every public name in it, nothing asked of other hosts."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from checks import Page, faults
from faultless_page import SCHEMES, faultless_page, sideways
from markup import block, inline, table
from pages import ROOT, all_pages
from playwright.sync_api import Browser
from surface import SURFACE

SHOWN = (
    "index",
    "docs/tutorial",
    "docs/claims",
    "docs/splits",
    "gallery/index",
    "gallery/4_diagnose_a_network",
    "reference/feddecorr",
    "reference/settings",
)
"""Pages of each kind: the first, text, wide tables, headings of code, pictures, code, and what the source says."""


def test_the_site_is_whole(tmp_path: Path, browser: Browser) -> None:
    """One test, since the site is built once; examples of the gallery are shown here, and run by `make docs`."""
    build = [sys.executable, str(ROOT / "docs" / "site" / "website.py"), str(tmp_path), "--without-gallery"]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    site = tmp_path / "html"
    assert done.stdout.split() == [str(site / "index.html")]
    for module, names in SURFACE.items():
        listed = Page(site / "reference" / f"{module}.html").places
        assert {f"{module}.{name}" for name in names} <= listed
    pages = {page.path for page in all_pages()}
    assert [page for page in pages if not (site / page).with_suffix(".html").is_file()] == []
    index = (site / "searchindex.js").read_text()
    assert all(f'"{page.removesuffix(".md")}"' in index for page in pages)
    assert "FedDecorrLoss" in index
    for example in (ROOT / "docs" / "gallery").glob("*.py"):
        links = Page(site / "gallery" / f"{example.stem}.html").links
        assert any(link.endswith(f"/{example.stem}.ipynb") for link in links)
    assert list(sideways_pages(browser, site)) == []


def sideways_pages(browser: Browser, site: Path) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """Yield pages that scroll sideways, light or dark, and at which widths."""
    with faultless_page(browser, offline=True) as opened:
        for name in SHOWN:
            opened.goto((site / f"{name}.html").as_uri())
            if found := sideways(opened):
                yield name, found
            assert opened.evaluate("document.documentElement.dataset.theme") == SCHEMES[-1]  # it has followed


def test_what_is_wrong_with_a_site_is_found(tmp_path: Path) -> None:
    (tmp_path / "other.html").write_text('<h1 id="here">Other</h1>')
    (tmp_path / "look.css").write_text('@import "https://fonts.test/a"; a {background: url(//b.test/c.png)}')
    (tmp_path / "good.html").write_text(
        '<a href="other.html#here">1</a><a href="#me" id="me">2</a><a href="https://paper.test">3</a>'
        '<link href="look.css"><img src="data:image/png;base64,AA==">'
    )
    (tmp_path / "wrong.html").write_text(
        '<script src="https://a.test/x.js"></script><a href="none.html">1</a><a href="other.html#there">2</a>'
    )
    assert list(faults(tmp_path)) == [
        "wrong.html loads https://a.test/x.js from elsewhere",
        "wrong.html leads to none.html, which is not there",
        "wrong.html leads to other.html#there, a place that the page does not have",
        "look.css loads https://fonts.test/a from elsewhere",
        "look.css loads //b.test/c.png from elsewhere",
    ]


def test_of_plain_text_only_code_is_marked_up() -> None:
    assert inline("x_i * `a_b` | c") == r"x\_i \* ``a_b`` \| c"
    assert inline("Example:  feddecorr run --out a_b") == "Example: ``feddecorr run --out a_b``"
    assert block(["One", "two.", "", "    σ = a*b"]) == ["One", "two.", "", ".. code-block:: text", "", "    σ = a*b"]


def test_a_table_has_a_row_for_each() -> None:
    lines = table(("a", "b"), [("1", "2"), ("3", "4")])
    assert re.findall(r"\* - (\w)", "\n".join(lines)) == ["a", "1", "3"]
    assert [line[-1] for line in lines if line.startswith("     - ")] == ["b", "2", "4"]
