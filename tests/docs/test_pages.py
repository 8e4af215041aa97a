import re

import pytest
from allowances import BEFORE, NOT_RUN, ONLY_PARSED, SHORTER
from pages import ROOT, Page, all_pages
from reader import Reader

pytestmark = pytest.mark.usefixtures("plain_look")

PAGES = all_pages()
COMMANDS = [
    str(command) for page in (*PAGES, *(Page("before", text) for text in BEFORE.values())) for command in page.commands
]


@pytest.mark.parametrize("page", PAGES, ids=[page.path for page in PAGES])
def test_a_reader_can_follow_the_page(page: Page, reader: Reader) -> None:
    """Every command and every snippet runs, one after the other in one place."""
    reader.follow(Page(f"{page.path} (before)", BEFORE.get(page.path, "")))
    reader.follow(page)


def test_what_is_done_differently_is_in_a_page() -> None:
    """An allowance that no page needs is gone."""
    assert [command for command in NOT_RUN if command not in COMMANDS] == []
    assert [
        start for start in ONLY_PARSED if not any(f"{command} ".startswith(f"{start} ") for command in COMMANDS)
    ] == []
    assert [start for start in SHORTER if not any(re.match(start, command) for command in COMMANDS)] == []


def test_preparations_are_for_pages() -> None:
    assert set(BEFORE) <= {page.path for page in PAGES}


def test_what_pages_make_is_in_the_makefile() -> None:
    targets = {command.split()[1] for command in COMMANDS if command.startswith("make ")}
    assert {"demo", "test"} <= targets
    assert targets <= set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
