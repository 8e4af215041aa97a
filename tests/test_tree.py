"""The tree is as its documents and its habits say."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import typer
from pages import ROOT, Page, all_pages

from feddecorr.paper.commands import app

PAGES = {page.path: page for page in all_pages()}


def files_below(*folders: Path) -> Iterator[Path]:
    for folder in folders:
        yield from (file for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts)


def commands_by_file(found: typer.Typer, group: str | None = None) -> dict[str, set[str]]:
    """Return the commands that each file of the command line defines; a group's count by the name of the group."""
    names: dict[str, set[str]] = defaultdict(set)
    for command in found.registered_commands:
        assert command.callback is not None
        names[command.callback.__module__].add(group or command.name or command.callback.__name__)
    for inner in found.registered_groups:
        assert inner.typer_instance is not None
        for file, commands in commands_by_file(inner.typer_instance, inner.name).items():
            names[file] |= commands
    return names


def test_a_file_that_is_a_command_is_named_after_it() -> None:
    found = commands_by_file(app)
    assert {"feddecorr.cli.run", "feddecorr.cli.data"} <= set(found)
    for module, commands in found.items():
        package, _, name = module.rpartition(".")
        assert package in ("feddecorr.cli", "feddecorr.paper.commands")
        assert name in commands


def test_links_lead_to_files_and_headings() -> None:
    wrong = []
    for path, page in PAGES.items():
        for link in page.links:
            name, _, heading = link.partition("#")
            target = ((ROOT / path).parent / name).resolve() if name else ROOT / path
            if re.match(r"https?://", link):
                continue
            if not target.exists() or (heading and heading not in Page.read(target).anchors):
                wrong.append(f"{path}: {link}")
    assert not wrong, "\n".join(wrong)


def test_source_files_that_pages_name_are_there() -> None:
    """But for those that the reader is asked to write."""
    folders = (ROOT / name for name in ("src", "tests", "benchmarks", "examples"))
    there = [f"/{file.relative_to(ROOT)}" for file in files_below(*folders)]
    wrong = []
    for path, page in PAGES.items():
        own = [Path(block.file).stem for block in page.blocks if block.file]
        for span in page.spans:
            named = re.fullmatch(r"[\w/-]+\.py", span.text) and not any(stem in span.text for stem in own)
            if named and not any(file.endswith(f"/{span.text}") for file in there):
                wrong.append(f"{path}: {span.text}")
    assert not wrong, "\n".join(wrong)


def test_the_forge_calls_targets_that_the_makefile_has() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = [
        name
        for file in (ROOT / ".github" / "workflows").glob("*.yml")
        for name in re.findall(r"run: make ([a-z-]+)", file.read_text())
    ]
    assert {"test", "docs", "package"} <= set(called) <= targets
