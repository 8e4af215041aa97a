"""Write `locks`: every package that the set-up installs, at one version, with the digests of its wheels.

    python -m release.lock [--upgrade] [--python PROGRAM ...]

pip says what is needed, for every Python that is named (by default those of 3.11, 3.12 and 3.13 that are found), and
the indexes and folders of its configuration say which wheels there are. Versions stay as they are, unless an upgrade is
asked for. PyTorch has two files: its build of the index, with what that needs for graphics cards on Linux, and the
build without (`+cpu`), where pip is configured with a place that has it.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version
from pip._internal.models.index import PyPI

from release.package import VERSIONS, call, interpreters
from release.pins import LOCKS, ROOT, Pins, pins, write_constraints

TORTURE = ("atheris",)
TIMM = ("timm", "torchvision")
"""For a folder of their own: see `pyproject.toml`."""

CUDA = re.compile(r"(cuda|nvidia|triton)\b")
PLATFORMS = re.compile(r"any|(manylinux|linux).*_(x86_64|aarch64)|macosx.*|win_amd64")
HEAD = "# Written by `python -m release.lock`.\n"


def resolve(program: Path, known: Pins) -> Pins:
    """Return what pip would install into an empty environment of that Python, given what is known."""
    backend = re.findall(r'"(hatchling==.+?)"', (ROOT / "pyproject.toml").read_text())
    with tempfile.TemporaryDirectory() as folder:
        report, limits = Path(folder) / "report.json", write_constraints(Path(folder) / "limits.txt", known)
        call(program, "-m", "venv", Path(folder) / "env")
        pip = (Path(folder) / "env/bin/pip", "install", "--dry-run", "--quiet", "--only-binary", ":all:")
        wanted = (f"{ROOT}[dev]", *backend, "editables", *TORTURE, "timm")
        call(*pip, "--ignore-installed", "--constraint", limits, "--report", report, *wanted)
        found = [each["metadata"] for each in json.loads(report.read_text())["install"]]
    versions = {canonicalize_name(each["name"]): Version(each["version"]).public for each in found}
    return {name: version for name, version in versions.items() if name != "feddecorr"}


class Links(HTMLParser):
    """The addresses on a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of a link."""
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]


class Sources:
    """Where pip looks for packages, as it is configured here."""

    def __init__(self) -> None:
        lines = [line.partition("=") for line in call(sys.executable, "-m", "pip", "config", "list").splitlines()]
        found = [(key.rpartition(".")[2], str(ast.literal_eval(value)).split()) for key, _, value in lines]
        self.indexes = [each for key, values in found if key == "index-url" for each in values] or [PyPI.simple_url]
        self.indexes += [each for key, values in found if key == "extra-index-url" for each in values]
        self.folders = sorted({Path(each) for key, values in found if key == "find-links" for each in values})

    def wheels(self, name: str) -> Iterator[tuple[str, str]]:
        """Yield file names of a package's wheels with their digests."""
        for index in self.indexes:
            for link in Links(self._page(index, name)).found:
                address, digest = urldefrag(link)
                if digest.startswith("sha256="):
                    yield unquote(address.rpartition("/")[2]), digest.removeprefix("sha256=")
        for folder in self.folders:
            for file in folder.glob(f"{name.replace('-', '_')}-*.whl"):
                yield file.name, hashlib.sha256(file.read_bytes()).hexdigest()

    def _page(self, index: str, name: str) -> str:
        address = f"{index.rstrip('/')}/{name}/" + "index.html" * index.startswith("file:")
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310 - pip's own configuration
                return str(answer.read().decode())
        except OSError as error:
            if index.startswith("file:") or getattr(error, "code", None) == 404:  # it need not have everything
                return ""
            raise


def digests(sources: Sources, name: str, version: str) -> list[str]:
    """Return the digests of all wheels of that version that a user of ours may be given."""
    return sorted({digest for file, digest in sources.wheels(name) if _fits(file, version)})


def _fits(file: str, version: str) -> bool:
    try:
        _, known, _, tags = parse_wheel_filename(file)
    except InvalidWheelFilename:
        return False
    return known == Version(version) and any(map(_is_ours, tags))


def _is_ours(tag: Tag) -> bool:
    found = re.fullmatch(r"(py|cp)3(\d*)", tag.interpreter)
    if found is None or not PLATFORMS.fullmatch(tag.platform):
        return False
    minors = [int(version.partition(".")[2]) for version in VERSIONS]
    minor = int(found[2] or 0)
    if found[1] == "py" or tag.abi == "abi3":
        return minor <= max(minors)
    return minor in minors and tag.abi == tag.interpreter


def write_lock(sources: Sources, name: str, versions: Pins) -> None:
    """Write one file."""
    with ThreadPoolExecutor(8) as threads:
        known = list(threads.map(lambda package: digests(sources, package, versions[package]), sorted(versions)))
    lines = []
    for package, found in zip(sorted(versions), known, strict=True):
        if not found:
            raise SystemExit(f"{package} {versions[package]}: there is no wheel")
        marker = ' ; sys_platform == "linux"' if CUDA.match(package) else ""
        hashes = [f"--hash=sha256:{digest}" for digest in found]
        lines.append(" \\\n    ".join([f"{package}=={versions[package]}{marker}", *hashes]))
    (LOCKS / f"{name}.txt").write_text(HEAD + "\n".join(lines) + "\n")
    print(f"locks/{name}.txt: {len(versions)} packages, {sum(map(len, known))} wheels")


def main(arguments: Sequence[str] | None = None) -> None:
    """Resolve, look the digests up, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions that fit")
    parser.add_argument("--python", nargs="+", type=Path, help="the interpreters to resolve for")
    chosen = parser.parse_args(arguments)
    known = {} if chosen.upgrade else pins()
    found: Pins = {}
    for program in chosen.python or interpreters():
        found |= resolve(program, {**known, **found})
        print(f"{program}: {len(found)} packages so far", flush=True)
    write_locks(Sources(), found)


def write_locks(sources: Sources, versions: Pins) -> None:
    """Write all files; that of PyTorch without CUDA stays as it is where no such build is to be had."""
    torture = {name: versions[name] for name in TORTURE}
    timm = {name: versions[name] for name in TIMM}
    torch = {name: version for name, version in versions.items() if name == "torch" or CUDA.match(name)}
    write_lock(sources, "torture", torture)
    write_lock(sources, "timm", timm)
    write_lock(sources, "torch", torch)
    write_lock(
        sources, "dev", {name: versions[name] for name in versions.keys() - torture.keys() - timm.keys() - torch.keys()}
    )
    without = f"{versions['torch']}+cpu"
    if digests(sources, "torch", without):
        write_lock(sources, "torch-cpu", {"torch": without})


if __name__ == "__main__":
    main()
