import importlib
from pathlib import Path

import pytest
from command_line import CommandLine
from small import SETTINGS

demonstration = importlib.import_module("feddecorr.cli.run")


def test_the_demo_compares_two_runs_and_goes_on_when_asked_again(
    feddecorr: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a small federation in place of the digits, which take a minute."""
    monkeypatch.setattr(demonstration, "DEMO_SETTINGS", {**SETTINGS, "rounds": 2})
    done = feddecorr("demo", "--out", tmp_path / "demo")
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines()] == ["run", "fedavg", "fedavg+feddecorr", "report:"]
    assert Path(done.out.split()[-1]).is_file()
    again = feddecorr("demo", "--out", tmp_path / "demo", "--json")
    assert again.err.count("already trained") == 2
    assert set(again.document["runs"]) == {"fedavg", "fedavg+feddecorr"}


def test_the_demo_refuses_another_run(feddecorr: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed, code in ((0, 0), (1, 2)):
        monkeypatch.setattr(demonstration, "DEMO_SETTINGS", {**SETTINGS, "rounds": 1, "seed": seed})
        assert feddecorr("demo", "--out", tmp_path / "demo").code == code
