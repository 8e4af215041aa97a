"""Whoever installs the wheel sees what the pages show: the tutorial's first steps, the README's, and the gallery.

Pages say that the last digits depend on the processor: here, a number may be off by a tenth of what is shown.
"""

import os
import re
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from allowances import NOT_RUN
from pages import ROOT, Block, Page

ELSEWHERE = {
    "feddecorr watch runs": "ends with Ctrl-C alone; tests/report/test_watch.py starts it",
    **dict.fromkeys(
        [
            "feddecorr report runs/skewed runs/even -o report.html",
            "feddecorr report runs/skewed runs/even runs/cured -o report.html",
        ],
        "prints a path alone; the demonstration writes the same report here",
    ),
}
NUMBER = re.compile(r"\d+(?:\.\d+)?")
TOLERANCE = 0.1


def is_printed(shown: str, printed: str) -> bool:
    """Return whether a line is somewhere in what was printed, its numbers within the tolerance."""
    words, numbers = NUMBER.split(" ".join(shown.split())), [float(number) for number in NUMBER.findall(shown)]
    pattern = rf"(?<![\d.])({NUMBER.pattern})".join(map(re.escape, words))
    places = re.finditer(pattern, " ".join(printed.split()))
    return any(
        all(
            abs(float(found) - number) <= TOLERANCE * number
            for found, number in zip(place.groups(), numbers, strict=True)
        )
        for place in places
    )


def test_a_line_is_found_by_its_words_and_about_its_numbers() -> None:
    printed = "runs/a: round 8, accuracy 71.7 %,\n  effective rank 30.9\n"
    assert is_printed("accuracy 72 %, effective rank 31", printed)
    assert not is_printed("accuracy 72 %, effective rank 38", printed)
    assert not is_printed("accuracy 1.7 %", printed)
    assert not is_printed("runs/b: round 8", printed)


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the programs of a fresh environment: the package is there from the wheel, all else from this one's."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, symlinks=True)
    programs = folder / "bin"
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", programs / "python"]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", wheel], check=True, capture_output=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    (home,) = run(folder, programs / "python", "-c", "import feddecorr; print(feddecorr.__file__)").splitlines()
    assert Path(home).is_relative_to(packages)
    return programs


def run(folder: Path, program: Path, *words: str | Path) -> str:
    """Return what a program prints."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables |= {"MPLBACKEND": "agg", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([program, *words], cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def steps(name: str, *, end: str) -> Iterator[Block]:
    """Yield the blocks of a page before a heading."""
    page = Page.read(ROOT / name)
    last = page.text.splitlines().index(end)
    return (block for block in page.blocks if block.line <= last)


def play(blocks: Iterator[Block], folder: Path, programs: Path) -> int:
    """Type the commands; what is shown after them must have been printed. Return how many lines were."""
    printed, compared = "", 0
    for block in blocks:
        if block.language == "sh":
            commands = [each for each in block.commands() if str(each) not in (*NOT_RUN, *ELSEWHERE)]
            printed += "".join(
                run(folder, programs / name, *words) for name, *words in (each.words for each in commands)
            )
        elif block.language == "text":
            lines = block.text.splitlines()
            assert [line for line in lines if not is_printed(line, printed)] == [], printed
            compared += len(lines)
    return compared


def test_the_tutorial_and_the_readme_show_what_their_commands_print(programs: Path, tmp_path: Path) -> None:
    """The demonstration's three runs are the tutorial's (tests/docs/test_first_hour.py): it finds them done."""
    assert play(steps("docs/tutorial.md", end="## 3. Write it down"), tmp_path, programs)
    (tmp_path / "feddecorr-demo").symlink_to("runs")
    assert play(steps("README.md", end="## I have a model"), tmp_path, programs)


@pytest.mark.parametrize("name", ["3_the_loss_in_your_own_loop", "4_diagnose_a_network", "9_every_measure"])
def test_a_page_of_the_gallery_prints_what_it_quotes(name: str, programs: Path, tmp_path: Path) -> None:
    file = ROOT / "docs" / "gallery" / f"{name}.py"
    prose = " ".join(line.removeprefix("# ") for line in file.read_text().splitlines() if line.startswith("# "))
    quoted = [text for text in re.findall("``(.+?)``", prose) if NUMBER.search(text) and " " in text]
    assert quoted
    printed = run(tmp_path, programs / "python", file)
    assert [text for text in quoted if not is_printed(text, printed)] == [], printed
