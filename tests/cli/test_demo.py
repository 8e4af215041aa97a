import importlib
from pathlib import Path

import pytest
from command_line import CommandLine
from small import SETTINGS

from feddecorr.runs.pipeline import run
from feddecorr.settings.flat import parse_settings

demonstration = importlib.import_module("feddecorr.cli.run")


def test_the_demo_compares_three_runs_and_goes_on_when_asked_again(
    feddecorr: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a small federation in place of the digits, which take a minute."""
    monkeypatch.setattr(demonstration, "DEMO_SETTINGS", {**SETTINGS, "rounds": 2})
    done = feddecorr("demo", "--out", tmp_path / "demo")
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines()] == ["run", "even", "skewed", "cured", "report:"]
    assert Path(done.out.split()[-1]).is_file()
    again = feddecorr("demo", "--out", tmp_path / "demo", "--json")
    assert again.err.count("already trained") == 3
    assert set(again.document["runs"]) == {"even", "skewed", "cured"}


@pytest.mark.parametrize("seed", [1, 2])
def test_the_demo_shows_the_collapse_and_the_cure_with_any_seed(seed: int) -> None:
    """In rank and in count, with a narrow network and fewer rounds; seed 0 is played in full with the pages."""
    short = {"model": {"name": "convnet", "widths": [8, 16, 64]}, "rounds": 3, "engine": "serial", "seed": seed}
    found = {}
    for name, extra in demonstration.DEMO_RUNS.items():
        settings = parse_settings({**demonstration.DEMO_SETTINGS, **extra, **short})
        *_, last = run(*settings)
        assert last.model is not None
        found[name] = last.model
    for measure in ("effective_rank", "significant_singular_values"):
        even, skewed, cured = (getattr(found[name], measure) for name in ("even", "skewed", "cured"))
        assert skewed < 0.8 * min(even, cured)


def test_the_demo_refuses_another_run(feddecorr: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed, code in ((0, 0), (1, 2)):
        monkeypatch.setattr(demonstration, "DEMO_SETTINGS", {**SETTINGS, "rounds": 1, "seed": seed})
        assert feddecorr("demo", "--out", tmp_path / "demo").code == code
