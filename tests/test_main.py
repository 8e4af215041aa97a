"""`python -m feddecorr` imports from the working directory no more than Python itself does before our first line."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT

SHADOW = """
import sys
import _frozen_importlib_external as machinery

with open("imported", "a") as file:
    file.write(__name__ + "\\n")
elsewhere = [place for place in sys.path if place not in ("", HERE)]
spec = machinery.PathFinder.find_spec(__name__, elsewhere)
__file__ = spec.origin
if spec.submodule_search_locations is not None:
    __path__, __package__ = spec.submodule_search_locations, __name__
__spec__ = spec
exec(spec.loader.get_code(__name__), globals())
"""
"""Notes its own name, and then is what it stands in front of."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a directory in which every module of the standard library, and some of others, have a shadow."""
    for name in sys.stdlib_module_names | {"typer", "torch", "filelock", "numpy", "pydantic"}:
        if name not in sys.builtin_module_names:
            (tmp_path / f"{name}.py").write_text(SHADOW.replace("HERE", repr(str(tmp_path))))
    return tmp_path


def imported_from(place: Path, *words: str, path: Path | None = None) -> set[str]:
    """Return what a Python, started with these words in that directory, takes from there."""
    environment = {**os.environ, "PYTHONPATH": str(path)} if path else dict(os.environ)
    done = subprocess.run(
        [sys.executable, *words], cwd=place, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = place / "imported"
    names = set(found.read_text().split()) if found.exists() else set()
    found.unlink(missing_ok=True)
    return names


@pytest.fixture
def unavoidable(place: Path, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return what Python imports on its way to the first line of any package."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "innocent").mkdir()
    for name in ("__init__", "__main__"):
        (elsewhere / "innocent" / f"{name}.py").touch()
    return imported_from(place, "-m", "innocent", path=elsewhere)


@pytest.mark.parametrize("words", [["-m", "feddecorr"], ["-mfeddecorr"], ["-B", "-m", "feddecorr"]], ids=" ".join)
def test_what_python_cannot_prevent_is_all_that_is_imported(
    place: Path, unavoidable: set[str], words: list[str]
) -> None:
    assert imported_from(place, *words, "list", "engine") == unavoidable


def test_what_is_left_is_said(unavoidable: set[str]) -> None:
    (said,) = re.findall(r"imports from there (.+?), before the first line", (ROOT / "SECURITY.md").read_text())
    assert unavoidable <= set(re.findall(r"`(\w+)`", said))


@pytest.mark.parametrize("words", [["-P", "-m", "feddecorr"], ["-I", "-m", "feddecorr"]], ids=" ".join)
def test_nothing_at_all_is_imported_where_python_is_reported_so(place: Path, words: list[str]) -> None:
    assert imported_from(place, *words, "list", "engine") == set()


def test_a_package_that_only_uses_ours_keeps_its_path(tmp_path: Path) -> None:
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "__init__.py").write_text("import feddecorr, sys\nprint(sys.path[0])\n")
    (tmp_path / "user" / "__main__.py").touch()
    done = subprocess.run(
        [sys.executable, "-m", "user", "feddecorr"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(tmp_path)
