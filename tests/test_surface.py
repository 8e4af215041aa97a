"""What may be imported, by the list in docs/extending.md: it is there, it says what it is, and it is enough."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module

from pages import ROOT, all_pages
from surface import SURFACE, said_of

from feddecorr.settings.options import REGISTRIES

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


def test_what_may_be_imported_is_there_and_says_what_it_is() -> None:
    """In words of its own: dataclasses without a docstring get their signature."""
    said = {f"{module}.{name}": said_of(module, name) for module, names in SURFACE.items() for name in names}
    assert [full for full, words in said.items() if not words or words.startswith(f"{full.split('.')[-1]}(")] == []


def test_nothing_is_listed_twice() -> None:
    assert NAMES
    assert len(NAMES) == len(set(NAMES))


def test_what_a_package_offers_at_its_top_is_listed() -> None:
    for module in ("feddecorr", "feddecorr.paper.theory"):
        assert set(SURFACE[module]) == set(import_module(module).__all__)


def test_every_family_has_its_row_and_its_base_is_listed() -> None:
    wrong = []
    for setting, family in REGISTRIES.items():
        base = family.base
        homes = [module for module, names in SURFACE.items() if base.__name__ in names]
        if not re.search(rf"^\| `{setting}` \| `{base.__name__}`", PAGE, re.MULTILINE):
            wrong.append(f"{setting}: no row with {base.__name__}")
        if [getattr(import_module(module), base.__name__) for module in homes] != [base]:
            wrong.append(f"{setting}: {base.__name__} is listed in {homes}")
    assert not wrong, "\n".join(wrong)


def test_pages_and_examples_import_nothing_else() -> None:
    others = {place: set(imported(code)) - set(NAMES) for place, code in CODE.items()}
    assert {place: names for place, names in others.items() if names} == {}


def test_pages_name_nothing_else() -> None:
    """Where they speak of Python's names in a sentence; of a name that is listed, they may name more."""
    listed = tuple(f"{name}." for name in NAMES)
    named = [(page.path, re.match(r"feddecorr(\.\w+)+", span.text)) for page in PAGES.values() for span in page.spans]
    wrong = [
        f"{path}: {found[0]}"
        for path, found in named
        if found and found[0] not in SURFACE and not f"{found[0]}.".startswith(listed)
    ]
    assert not wrong, "\n".join(wrong)


def test_what_is_not_listed_is_found() -> None:
    for code in (
        "from feddecorr.server.validation import UpdateValidator",
        "from feddecorr.data import DATA",
        "import feddecorr.server.rounds",
        "import feddecorr\nfeddecorr.federate",
    ):
        assert not set(imported(code)) <= set(NAMES)
