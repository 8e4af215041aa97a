"""Build the documentation's site: every page of the project, the gallery and the reference.

    python docs/site/website.py [FOLDER] [--without-gallery]

Pages are laid out as they are in the project, so that links lead where they lead on a forge. The
gallery's examples are run, which takes the most of the time; `--without-gallery` shows them without running them.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from checks import faults
from reference import write_reference
from sphinx.cmd.build import build_main

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
FILES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff", "LICENSE")
FOLDERS = ("docs", "examples", "results")


def match_layout(folder: Path) -> None:
    """Put all pages, and what they link to, into a folder in place of what it held; but pictures of examples stay."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.is_file():
            old.unlink()
        elif old.name != "gallery":
            shutil.rmtree(old)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("site", "__pycache__"))
    for file in (*(ROOT / name for name in FILES), *(HERE / "contents").iterdir()):
        shutil.copy2(file, folder)
    write_reference(folder / "reference")


def build(folder: Path, *, gallery: bool) -> int:
    """Build the site in a folder's `html`; return 0 if there was no warning and nothing is wrong with it."""
    for old in ("html", "doctrees"):
        shutil.rmtree(folder / old, ignore_errors=True)
    match_layout(folder / "pages")
    words = ["--conf-dir", HERE, "--doctree-dir", folder / "doctrees", "--define", f"plot_gallery={gallery}"]
    html = folder / "html"
    if failed := build_main([*map(str, words), "--fail-on-warning", "--quiet", str(folder / "pages"), str(html)]):
        return failed
    found = list(faults(html))
    print(*found, sep="\n", end="\n" if found else "", file=sys.stderr)
    return int(bool(found))


def main() -> None:
    """Build, and say where it is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "site")
    parser.add_argument("--without-gallery", action="store_true", help="do not run the gallery's examples")
    arguments = parser.parse_args()
    failed = build(arguments.folder.absolute(), gallery=not arguments.without_gallery)
    if not failed:
        print(arguments.folder / "html" / "index.html")
    sys.exit(failed)


if __name__ == "__main__":
    main()
