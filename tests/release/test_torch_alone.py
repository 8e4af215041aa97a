"""What people drop into their own code needs PyTorch and nothing else."""

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement


def needed(name: str, known: set[str]) -> Iterator[str]:
    """Yield a package and all that it needs."""
    if name in known:
        return
    known.add(name)
    yield name
    for word in distribution(name).requires or []:
        requirement = Requirement(word)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield from needed(requirement.name, known)


@pytest.fixture(scope="module")
def place(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of packages that holds the wheel, PyTorch, and what PyTorch needs."""
    folder = tmp_path_factory.mktemp("packages")
    install: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        folder / "site",
        wheel,
    ]
    subprocess.run(install, check=True, capture_output=True)
    for name in needed("torch", set()):
        home = distribution(name)
        for top in {file.parts[0] for file in home.files or [] if file.parts[0] not in ("..", "__pycache__")}:
            target = folder / "site" / top
            if not target.exists():
                target.symlink_to(Path(str(home.locate_file(top))))
    return folder / "site"


def run(place: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run a piece of code with these packages and Python's own."""
    start = f"import sys; sys.path.insert(0, {str(place)!r})\n{code}"
    words = [sys.executable, "-I", "-S", "-W", "ignore", "-c", start]
    return subprocess.run(words, check=False, capture_output=True, text=True, cwd=place)


def test_loss_capture_and_measures_work_with_pytorch_alone(place: Path) -> None:
    code = """
import torch
from feddecorr import FedDecorrLoss, capture_representations, convert_beta, diagnose, effective_rank
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
x, y = torch.randn(64, 4), torch.arange(64) % 3
with capture_representations(model) as seen:
    model(x)
FedDecorrLoss()(seen.z).backward()
assert model[0].weight.grad.abs().sum() > 0
found = diagnose(model, [(x, y)])
assert abs(found.effective_rank - effective_rank(seen.z)) < 1e-6
assert "effective rank" in str(found)
print("pydantic" in sys.modules, "numpy" in sys.modules, "rich" in sys.modules)
"""
    done = run(place, code)
    assert (done.returncode, done.stdout.split()) == (0, ["False"] * 3), done.stderr


def test_what_needs_more_says_so_in_a_line(place: Path) -> None:
    done = run(place, "from feddecorr.__main__ import main; main()")
    assert done.returncode == 1
    assert done.stderr.startswith("error: the command needs more than PyTorch: pip install 'feddecorr[simulation]'")
    assert len(done.stderr.splitlines()) == 1
    done = run(place, "import feddecorr; feddecorr.run")
    assert "feddecorr.run needs more than PyTorch" in done.stderr.splitlines()[-1]
