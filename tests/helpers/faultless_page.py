"""A page in a browser of which nothing may go wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any, Literal

from playwright.sync_api import Browser, Page

WIDTHS = (1400, 768, 390)
"""Of a desktop, a tablet and a phone."""

SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")

NEXT_FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"

HOLDERS = "[...document.querySelectorAll(':has(h1)')]"


def sideways(page: Page) -> list[tuple[str, int]]:
    """Return the colour schemes and widths at which the page scrolls sideways, changed to one after the other.

    Or any part of it that holds the heading: a theme may let its column scroll in place of the page.
    """
    found: list[tuple[str, int]] = []
    for scheme, width in product(SCHEMES, WIDTHS):
        page.emulate_media(color_scheme=scheme)
        page.evaluate(NEXT_FRAMES)  # in which the page hears of it
        page.set_viewport_size({"width": width, "height": 900})
        if page.evaluate(f"{HOLDERS}.some(part => part.scrollWidth > part.clientWidth)"):
            found.append((scheme, width))
    return found


@contextmanager
def faultless_page(browser: Browser, **options: Any) -> Iterator[Page]:
    """Open an empty page; in the end, the console must not have spoken of any error.

    What the driver of a machine without a graphics card says of its speed is no error.
    """
    context = browser.new_context(**options)
    page = context.new_page()
    page.set_default_timeout(180_000)  # on a machine that has other things to do
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    yield page
    context.close()
    assert [text for text in wrong if "ReadPixels" not in text and "willReadFrequently" not in text] == []
