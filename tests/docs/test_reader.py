"""The reader who follows the pages notices what is wrong in them."""

import json
import re
from pathlib import Path

import pytest
from pages import Page, PageError
from reader import Reader

SMALL = "data=synthetic data.train=60 data.test=20 clients=2 model=mlp model.widths=[8]"

NETWORK = """
from torch import nn

def build(channels, classes):
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))
"""


def fenced(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```\n"


WRONG = {
    "an option that a command does not have": (fenced("sh", "feddecorr list --all"), "No such option '--all'"),
    "a setting that an experiment does not have": (fenced("sh", "feddecorr run rouns=1"), "unknown option 'rouns'"),
    "a file that is not there": (fenced("sh", "feddecorr show runs/a"), "holds no run"),
    "a command that is not there": (fenced("sh", "feddecorr cure"), "No such command 'cure'"),
    "the second of two commands": (fenced("sh", "feddecorr list\nfeddecorr lst"), "No such command 'lst'"),
    "a command without a fence": ("Try it:\n\n    feddecorr lst\n", "No such command 'lst'"),
    "a command in a fence without a language": (fenced("", "feddecorr lst"), "No such command 'lst'"),
    "a command in a sentence": ("Try `feddecorr show runs/a`.", "holds no run"),
    "a command that a sentence names": ("Use `feddecorr data fetch NAME`.", "no command 'fetch' in 'data'"),
    "an option that a sentence names": ("Use `feddecorr data get NAME --form FILE`.", "'get' has no option --form"),
    "a name in Python": ("There is `feddecorr.collapse.Spectrum`.", "no attribute 'Spectrum'"),
    "a program without a rule to run it": (fenced("sh", "conda install feddecorr"), "among the allowances"),
    "more of a shell than a command": (fenced("sh", "feddecorr list | head"), "more than a plain command"),
    "an option of a benchmark": (
        fenced("sh", "python -m benchmarks.augmentation_cost --repeat 1 --sizes 8"),
        "exit code 2",
    ),
    "an option of a benchmark that is only parsed": (
        fenced("sh", "python -m benchmarks.methods_cost --turns 4"),
        "exit code 2",
    ),
    "a benchmark that is not there": (fenced("sh", "python -m benchmarks.luck"), "No module named 'benchmarks.luck'"),
    "a name that Python does not know": (fenced("python", "import feddecorr\nfeddecorr.cure()"), "no attribute 'cure'"),
    "a file that cannot be imported": (fenced("python", "# mine.py\nimport nonsense"), "No module named 'nonsense'"),
    "a setting in a file": (fenced("toml", "[training]\nepoch = 10"), "unknown option 'epoch'"),
    "a file that is no TOML": (fenced("toml", "rounds: 10"), "TOMLDecodeError"),
    "a document that is no JSON": (fenced("json", "{rounds: 10}"), "JSONDecodeError"),
    "a language without a rule to run it": (
        fenced("fortran", "PRINT *, 1"),
        "'fortran' is no language that is known",
    ),
    "commands that are called text": (fenced("text", "$ feddecorr list"), "only text"),
}


@pytest.mark.parametrize(("text", "reason"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_in_a_page_is_found_with_its_place(text: str, reason: str, reader: Reader) -> None:
    page = Page("docs/wrong.md", f"# A page\n\n{text}")
    line = next(piece.line for piece in page.pieces)
    with pytest.raises(PageError, match=rf"^docs/wrong\.md:{line}: [\s\S]*{re.escape(reason)}"):
        reader.follow(page)


def test_python_goes_on_where_the_block_before_ended(reader: Reader) -> None:
    reader.follow(Page("page.md", fenced("python", "number = 41") + fenced("python", "assert number + 1 == 42")))
    with pytest.raises(PageError, match="AssertionError"):
        reader.follow(Page("page.md", fenced("python", "assert number == 42")))


def test_files_are_saved_under_the_names_that_the_page_gives(reader: Reader) -> None:
    """In a comment of their own, or in the sentence before."""
    page = [
        "Save it as `own_network.py`:\n\n" + fenced("python", NETWORK),
        "And the settings:\n\n" + fenced("toml", '# own.toml\nmodel = "own_network:build"'),
        fenced("sh", f"feddecorr run {SMALL} own.toml --trust --out runs/own"),
    ]
    reader.follow(Page("page.md", "\n".join(page)))
    assert json.loads(Path("runs/own/experiment.json").read_text())["model"]["source"] == "own_network:build"


def test_runs_are_short_whoever_starts_them(reader: Reader) -> None:
    """A command over several lines, with a comment after it, and Python."""
    command = f"feddecorr run {SMALL} \\\n    rounds=1000 --out runs/a  # takes a while"
    code = """
import feddecorr
small = {"name": "synthetic", "train": 60, "test": 20}
experiment = feddecorr.Experiment(data=small, clients=2, model={"name": "mlp", "widths": [8]})
options = feddecorr.RunOptions(rounds=1000)
assert [record.round for record in feddecorr.run(experiment, options)] == [1]
"""
    reader.follow(Page("page.md", fenced("sh", command) + fenced("python", code)))
    assert len(Path("runs/a/rounds.jsonl").read_text().splitlines()) == 1


def test_what_is_only_text_is_left_alone(reader: Reader) -> None:
    """What a program prints, formulas, and sentences about other things."""
    reader.follow(
        Page("page.md", fenced("", "error: unknown") + "\n    σ = 1\n\nSee `nothing.at.all` and `feddecorr`.\n")
    )
