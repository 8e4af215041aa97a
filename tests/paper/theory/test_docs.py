import re
from pathlib import Path

import pytest

from feddecorr.config.overrides import read_overrides
from feddecorr.paper.commands.theory import TEACHES, settings_of

PAGE = Path(__file__).parents[3] / "docs" / "theory.md"


def test_the_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """It prints an error near rounding, as its comment says."""
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    exec(compile(example, str(PAGE), "exec"), {})  # noqa: S102 - our own page
    assert float(capsys.readouterr().out) < 1e-12


def test_every_picture_and_test_of_the_page_is_there() -> None:
    """Links to pictures lead to files, and the tests that are named as evidence exist."""
    text = PAGE.read_text()
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", text)
    assert len(pictures) > 5
    assert all((PAGE.parent / picture).is_file() for picture in pictures)
    sources = "".join(file.read_text() for file in Path(__file__).parent.rglob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", text))
    assert len(named) > 5
    assert all(f"def {name}(" in sources for name in named)


def test_every_command_of_the_page_is_understood() -> None:
    """All words in it are settings of the study that is named."""
    commands = re.findall(r"feddecorr theory ([a-z]+)((?: [a-z_]+=\S+)*)", PAGE.read_text())
    assert {name for name, _ in commands} == TEACHES.keys()
    assert not re.search(r"--(?!out|json|help)[a-z]", PAGE.read_text())
    for name, words in commands:
        settings_of(name).parse(read_overrides(words.replace("=L", "=3").split()))
