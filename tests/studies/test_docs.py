"""What the page about many runs says is true: its files are written as they stand, and its commands are run."""

import re
import shlex
from pathlib import Path

import pytest
from command_line import CommandLine

PAGE = Path(__file__).parents[2] / "docs" / "sweeps.md"
SHRUNK = ["clients=4", "data.train=120", "data.test=40", "rounds=2", "training.epochs=1", "model.widths=[8,16]"]
"""Settings that make the page's sweeps small; what they vary, they vary all the same."""


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)


def shrink(words: list[str]) -> list[str]:
    return [*words, *SHRUNK, "partition.minimum=2"] if words[0] == "sweep" else words


def test_the_commands_of_the_page_do_what_it_says(
    feddecorr: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for kind in ("toml", "python"):
        (text,) = blocks(kind)
        Path(text.split()[1]).write_text(text)
    commands = [shlex.split(line) for block in blocks("sh") for line in block.splitlines()]
    assert len(commands) == 11
    for program, *words in commands:
        assert program == "feddecorr"
        done = feddecorr(*shrink(words))
        assert done.code == 0, (words, done.err)
        assert done.out
    assert {path.name for path in Path("sweeps/grid").iterdir()} == {"runs", "grid", "grid.md", "grid.html"}
    assert Path("studies/again/widths.md").read_text() == Path("studies/own/widths.md").read_text()
    assert not Path("studies/again/runs").exists()
