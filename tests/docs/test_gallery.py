"""The examples of the gallery run, with shorter runs than `make docs` gives them."""

import sys
from pathlib import Path
from types import ModuleType

import matplotlib.pyplot as plt
import pytest
from pages import ROOT

EXAMPLES = sorted((ROOT / "docs" / "gallery").glob("*.py"))


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_runs_and_draws(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a program, in the place of a reader who has an empty directory."""
    shown: list[int] = []
    program = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", program)
    monkeypatch.setattr(plt, "show", lambda: shown.extend(plt.get_fignums()))
    plt.switch_backend("agg")
    exec(compile(file.read_text(), file, "exec"), program.__dict__)  # noqa: S102 - our own examples
    plt.close("all")
    assert shown
