"""What may be imported, by the list in docs/extending.md: it is there, it says what it is, and it is enough."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module

import pytest
from pages import ROOT, all_pages
from surface import SURFACE, said_of

from feddecorr.config.options import REGISTRIES

PAGES = {page.path: page for page in all_pages()}
PAGE = PAGES["docs/extending.md"].text
NAMES = [f"{module}.{name}" for module, names in SURFACE.items() for name in names]
CODE = {
    f"{page.path}:{block.line}": block.text
    for page in PAGES.values()
    for block in page.blocks
    if block.language == "python"
} | {
    f"{folder}/{file.name}": file.read_text()
    for folder in ("examples", "docs/gallery")
    for file in (ROOT / folder).glob("*.py")
}


def imported(code: str) -> Iterator[str]:
    """Yield all that a piece of code takes from the package, by full names."""
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.split(".")[0] == "feddecorr":
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.Import(names=names):
                yield from (alias.name for alias in names if alias.name.startswith("feddecorr."))
            case ast.Attribute(value=ast.Name(id="feddecorr"), attr=name):
                yield f"feddecorr.{name}"


@pytest.mark.parametrize("full", NAMES)
def test_what_may_be_imported_is_there_and_says_what_it_is(full: str) -> None:
    module, _, name = full.rpartition(".")
    said = said_of(module, name)
    assert said
    assert not said.startswith(f"{name}("), "that is what dataclasses say by themselves"


def test_nothing_is_listed_twice() -> None:
    assert len(NAMES) == len(set(NAMES)) > 50


@pytest.mark.parametrize("module", ["feddecorr", "feddecorr.paper.theory"])
def test_what_a_package_offers_at_its_top_is_listed(module: str) -> None:
    assert set(SURFACE[module]) == set(import_module(module).__all__)


@pytest.mark.parametrize("setting", REGISTRIES)
def test_every_family_has_its_row_and_its_base_is_listed(setting: str) -> None:
    base = REGISTRIES[setting].base
    assert re.search(rf"^\| `{setting}` \| `{base.__name__}`", PAGE, re.MULTILINE)
    homes = [module for module, names in SURFACE.items() if base.__name__ in names]
    assert [getattr(import_module(module), base.__name__) for module in homes] == [base]


@pytest.mark.parametrize("place", CODE)
def test_pages_and_examples_import_nothing_else(place: str) -> None:
    assert set(imported(CODE[place])) <= set(NAMES)


@pytest.mark.parametrize("path", PAGES)
def test_pages_name_nothing_else(path: str) -> None:
    """Where they speak of Python's names in a sentence; of a name that is listed, they may name more."""
    for span in PAGES[path].spans:
        if found := re.match(r"feddecorr(\.\w+)+", span.text):
            assert found[0] in SURFACE or f"{found[0]}.".startswith(tuple(f"{name}." for name in NAMES)), found[0]


@pytest.mark.parametrize(
    "code",
    [
        "from feddecorr.server.intake import Intake",
        "from feddecorr.data import DATA",
        "import feddecorr.server.rounds",
        "import feddecorr\nfeddecorr.federate",
    ],
)
def test_what_is_not_listed_is_found(code: str) -> None:
    assert not set(imported(code)) <= set(NAMES)
