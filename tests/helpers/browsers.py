"""A browser for the tests of pages: a fixture for the folders whose tests open any."""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start the system's Chromium; `make browser` installs it."""
    program = shutil.which("chromium")
    assert program, "there is no chromium: 'make browser' installs it"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()
