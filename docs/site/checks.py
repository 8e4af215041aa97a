"""What must hold of the built site: every link leads somewhere, and no page asks another host for anything."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("link", "href"), ("object", "data")}
"""What a browser fetches by itself, in addition to everything with a `src`."""


class Page(HTMLParser):
    """The places of a page, the links of its text, and what it loads."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Sort the attributes of a tag."""
        for name, value in attrs:
            if name == "id":
                self.places.add(value or "")
            elif name in {"src", "srcset"} or (tag, name) in LOADED:
                self.loads += [part.split()[0] for part in (value or "").split(", ") if part]
            elif name == "href":
                self.links.append(value or "")


def faults(site: Path) -> Iterator[str]:
    """Yield what is wrong, in words."""
    read = cache(Page)
    for file in sorted(set(site.rglob("*.html")) - set(site.glob("_static/**/*"))):  # there lie the theme's templates
        page, here = read(file), file.relative_to(site)
        yield from (f"{here} loads {load} from elsewhere" for load in page.loads if _is_elsewhere(load))
        for link in (*page.links, *page.loads):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if not target.is_file():
                yield f"{here} leads to {link}, which is not there"
            elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in read(target).places:
                yield f"{here} leads to {link}, a place that the page does not have"
    for file in sorted(site.rglob("*.css")):
        for load in re.findall(r"(?:@import\s+|url\()['\"]?([^'\")]+)", file.read_text()):
            if _is_elsewhere(load):
                yield f"{file.relative_to(site)} loads {load} from elsewhere"


def _is_elsewhere(address: str) -> bool:
    return bool(urlsplit(address).netloc)
