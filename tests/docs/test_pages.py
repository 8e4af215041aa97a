import re

import pytest
from allowances import BEFORE, NOT_RUN, ONLY_PARSED, SHORTER
from pages import ROOT, Page, all_pages
from reader import Reader

PAGES = all_pages()
COMMANDS = [
    str(command) for page in (*PAGES, *(Page("before", text) for text in BEFORE.values())) for command in page.commands
]


@pytest.mark.parametrize("page", PAGES, ids=[page.path for page in PAGES])
def test_a_reader_can_follow_the_page(page: Page, reader: Reader) -> None:
    """Every command and every snippet runs, one after the other in one place."""
    reader.follow(Page(f"{page.path} (before)", BEFORE.get(page.path, "")))
    reader.follow(page)


@pytest.mark.parametrize("command", NOT_RUN)
def test_what_is_not_run_is_in_a_page(command: str) -> None:
    assert command in COMMANDS


@pytest.mark.parametrize("start", ONLY_PARSED)
def test_what_is_only_parsed_is_in_a_page(start: str) -> None:
    assert any(command.startswith(start) for command in COMMANDS)


@pytest.mark.parametrize("start", SHORTER)
def test_what_is_shortened_is_in_a_page(start: str) -> None:
    assert any(re.match(start, command) for command in COMMANDS)


def test_preparations_are_for_pages() -> None:
    assert set(BEFORE) <= {page.path for page in PAGES}


def test_what_pages_make_is_in_the_makefile() -> None:
    targets = {command.split()[1] for command in COMMANDS if command.startswith("make ")}
    assert {"demo", "test"} <= targets
    assert targets <= set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
