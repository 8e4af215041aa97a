"""What the pages quote of recorded results is what the records say."""

import pytest
from benchmarks.quotes.places import PLACE, QUOTES, fill
from pages import all_pages

PAGES = {page.path: page for page in all_pages()}


def test_pages_quote_what_was_recorded() -> None:
    """If not, `make quotes` writes it anew."""
    assert [path for path, page in PAGES.items() if fill(page.text) != page.text] == []


def test_all_that_can_be_quoted_is_quoted() -> None:
    found = {name for page in PAGES.values() for _, name, *_ in PLACE.findall(page.text)}
    assert found == set(QUOTES)


def test_whatever_was_typed_is_written_over() -> None:
    """In a line and in a block, and nothing around it changes."""
    for name, quote in QUOTES.items():
        for space in ("", "\n\n"):
            place = f"before <!-- quote {name} -->{space}{{}}{space}<!-- end --> after <!-- end -->"
            assert fill(place.format("about | 100 | %")) == place.format(quote())


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(KeyError, match="no-such-thing"):
        fill("<!-- quote no-such-thing -->1<!-- end -->")
