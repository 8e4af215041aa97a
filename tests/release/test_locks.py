"""What is installed is named with its digest, all of it, and so is what builds and tests on a forge."""

import re
import tomllib
from importlib.metadata import distributions

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pages import ROOT
from release.lock import CUDA
from release.pins import LOCKS, pins, write_constraints

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PINS = {canonicalize_name(name): version for name, version in pins().items()}


def asked() -> list[Requirement]:
    extras = PROJECT["project"]["optional-dependencies"].values()
    words = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]
    return [Requirement(word) for word in [*words, *(word for extra in extras for word in extra)]]


def test_whatever_the_project_asks_for_is_locked_at_a_version_that_fits() -> None:
    others = [each for each in asked() if each.name != "feddecorr"]
    assert [str(each) for each in others if not each.specifier.contains(PINS[canonicalize_name(each.name)])] == []


def test_whatever_locked_packages_need_is_locked() -> None:
    """As those say that are installed here; what graphics cards need is not installed everywhere."""
    found = {canonicalize_name(each.metadata["Name"]): each for each in distributions()}
    for name in PINS.keys() & found.keys():
        for word in found[name].requires or []:
            need = Requirement(word)
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                assert need.specifier.contains(PINS[canonicalize_name(need.name)], prereleases=True), f"{name}: {word}"


@pytest.mark.parametrize("name", ["dev", "timm", "torch", "torch-cpu", "torture"])
def test_every_line_has_one_version_and_digests(name: str) -> None:
    lines = (LOCKS / f"{name}.txt").read_text().replace(" \\\n", " ").splitlines()
    packages = [line for line in lines if not line.startswith("#")]
    assert packages
    for line in packages:
        cuda = ' ; sys_platform == "linux"' if CUDA.match(line) else ""
        assert re.fullmatch(rf"[a-z0-9-]+==[\w.!+]+{cuda}( +--hash=sha256:[0-9a-f]{{64}})+", line), line
    assert any(line.startswith("torch==") or CUDA.match(line) for line in packages) == name.startswith("torch")


def test_the_backend_has_one_version() -> None:
    assert all(re.fullmatch(r"[\w-]+==[\d.]+", word) for word in PROJECT["build-system"]["requires"])


def test_actions_are_named_by_their_commits() -> None:
    used = [
        line for file in (ROOT / ".github/workflows").iterdir() for line in re.findall(r"uses: .*", file.read_text())
    ]
    assert used
    for line in used:
        assert re.fullmatch(r"uses: [\w-]+/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", line), line


def test_versions_alone_are_no_digests(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = write_constraints(tmp_path_factory.mktemp("limits") / "constraints.txt", pins())
    assert "--hash" not in file.read_text()
    assert len(file.read_text().splitlines()) == len(PINS)
