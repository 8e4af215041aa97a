"""What the pages about methods say is true."""

import re
from pathlib import Path

import pytest
from plain import close, info, number, same, update
from small import small

from feddecorr.core.messages import Server
from feddecorr.methods import METHODS, Method
from feddecorr.runs.pipeline import run

DOCS = Path(__file__).parents[2] / "docs"
METHODS_PAGE = (DOCS / "methods.md").read_text()
HOOKS = ("start", "broadcast", "trains", "terms", "gradient", "finish", "aggregate", "server_update")


@pytest.fixture
def clipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[Method]:
    """Save the example as the page says, and find it by name."""
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "add-a-method.md").read_text(), re.DOTALL)
    (tmp_path / "clipped.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    return METHODS.find("clipped:Clipped")


def test_the_example_does_what_it_says(clipped: type[Method]) -> None:
    """From (1, 1) towards (4, 5), five away: by 1 it comes to (1.6, 1.8), by 9 it arrives."""
    server, updates = Server(number(1.0, 1.0), {}), [update(0, 1, number(4.0, 5.0))]
    assert close(clipped.model_validate({"radius": 1}).aggregate(server, updates, info()).weights, number(1.6, 1.8))
    assert same(clipped.model_validate({"radius": 9}).aggregate(server, updates, info()).weights, number(4.0, 5.0))


@pytest.mark.usefixtures("clipped")
def test_the_example_runs_with_a_regularizer() -> None:
    """By its name from outside."""
    records = list(run(*small("method=clipped:Clipped", "method.radius=0.5", "regularizers=feddecorr")))
    assert len(records) == 3


@pytest.mark.parametrize("name", list(METHODS.table))
def test_the_table_names_every_method_its_file_and_its_hooks(name: str) -> None:
    """Just those hooks that differ from FedAvg's, its own or of a shared base."""
    (row,) = [line for line in METHODS_PAGE.splitlines() if line.startswith(f"| `{name}` |")]
    hooks = [hook for hook in HOOKS if getattr(METHODS.table[name], hook) is not getattr(Method, hook)]
    assert f"| {', '.join(hooks) or 'none'} |" in row
    assert f"`methods/{METHODS.table[name].__module__.rpartition('.')[2]}.py`" in row
