"""The example of a user's own Flower app: ordinary but for the lines that are marked."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from flwr.app import Context, RecordDict
from local_grid import LocalGrid

from feddecorr.threads import threads

SOURCE = Path(__file__).parents[2] / "examples" / "flower_app"
MARK = "  # +\n"
RUN = {"num-server-rounds": 10, "beta": 0.1}


def lines(file: str) -> list[str]:
    return (SOURCE / file).read_text().splitlines(keepends=True)


@pytest.fixture(params=["with", "without"])
def modules(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[ModuleType]:
    """Return client and server of the app, with the lines or without them."""
    for file in ("network.py", "client.py", "server.py"):
        kept = [
            re.sub(r"with .*:  # \+", "if True:", line) if request.param == "without" else line for line in lines(file)
        ]
        plain = [line for line in kept if request.param == "with" or not line.endswith(MARK)]
        (tmp_path / file).write_text("".join(plain))
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("network", "client", "server"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return [__import__(name) for name in ("client", "server")]


def test_ten_lines_are_enough() -> None:
    assert 0 < sum(line.endswith(MARK) for file in ("client.py", "server.py") for line in lines(file)) <= 10


def test_the_app_trains_and_with_the_lines_knows_its_spectrum(
    modules: list[ModuleType], capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    """Without them it is an ordinary app, which works as well."""
    client, server = modules
    torch.manual_seed(0)
    nodes = {10 + number: {"partition-id": number, "num-partitions": 4} for number in range(4)}
    grid = LocalGrid(nodes, app=client.app, run_config=RUN)
    with threads(1):  # which tests share with others
        server.app(grid, Context(1, 1, {}, RecordDict(), dict(RUN)))
    printed = capsys.readouterr().out
    ((accuracy, rank),) = re.findall(r"^10 \{'accuracy': ([\d.]+)(?:, 'effective-rank': ([\d.]+))?\}", printed, re.M)
    assert float(accuracy) > 0.7
    assert bool(rank) == ("[with]" in request.node.name)
    assert not rank or 1 < float(rank) < 128
