from pathlib import Path

import pytest
from command_line import CommandLine
from small import small

from feddecorr.results.summary import STATISTICS
from feddecorr.runs.pipeline import run

pytestmark = pytest.mark.usefixtures("plain_look")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of runs: two methods, with and without FedDecorr, of which one seed is missing once."""
    folder = tmp_path_factory.mktemp("runs")
    for method in ("fedavg", "fedprox"):
        for regularizers in ("none", "feddecorr"):
            for seed in range(2 if (method, regularizers) == ("fedprox", "none") else 3):
                words = [f"method={method}", f"regularizers={regularizers}", f"seed={seed}"]
                list(run(*small(*words, "rounds=2"), folder / "-".join(words)))
    return folder


def test_pairs_are_compared_seed_by_seed_for_every_statistic(feddecorr: CommandLine, runs: Path) -> None:
    outcome = feddecorr("compare", runs, "--by", "method", "--pair", "regularizers", "--json")
    assert outcome.code == 0
    found = outcome.document
    assert [each["seeds"] for each in found] == [[0, 1, 2], [0, 1]]
    assert [each["first"] for each in found] == ["none", "none"]
    assert all("feddecorr" in each["second"] for each in found)
    last = found[0]["statistics"]["last"]
    assert (last["seeds"], last["method"]) == (3, "t")
    assert last["low"] <= last["mean"] <= last["high"]
    assert found[0]["statistics"].keys() == {"last", "last_ten", "best", "transient", "smoothed"}
    assert found[0]["statistics"]["last_ten"]["mean"] is None


def test_the_table_names_the_interval(feddecorr: CommandLine, runs: Path) -> None:
    outcome = feddecorr("compare", runs, "--by", "method", "--pair", "regularizers")
    headings, *rows = outcome.out.splitlines()
    assert headings.split("  ")[0] == "first"
    assert rows[0].startswith("FedAvg  ")
    assert "FedProx (μ = 0.001) + FedDecorr" in rows[-1]
    assert "95 % interval (t)" in headings
    assert len(rows) == 2 * len(STATISTICS)
    assert "of 3" in rows[0]


def test_records_compare_as_their_runs(feddecorr: CommandLine, runs: Path, tmp_path: Path) -> None:
    feddecorr("records", runs, "-o", tmp_path / "runs.jsonl")
    words = ["--by", "method", "--pair", "regularizers", "--measure", "effective_rank", "--json"]
    assert feddecorr("compare", tmp_path / "runs.jsonl", *words).document == feddecorr("compare", runs, *words).document


def test_without_pairs_it_says_so(feddecorr: CommandLine, runs: Path, tmp_path: Path) -> None:
    nothing = feddecorr("compare", runs, "--pair", "clients")
    assert nothing.code == 2
    assert "no two are finished, equal in all settings but 'clients'" in nothing.err
    unknown = feddecorr("compare", runs, "--pair", "regularisers")
    assert unknown.code == 2
    empty = feddecorr("records", tmp_path, "-o", tmp_path / "runs.jsonl")
    assert empty.code == 2
    assert "no run with a finished round" in empty.err
    assert not (tmp_path / "runs.jsonl").exists()
