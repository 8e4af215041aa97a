from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from command_line import CommandLine
from small import small

import feddecorr as package
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    list(run(*small("rounds=3", "evaluation.every=3"), folder / "a"))
    list(run(*small("rounds=2", "regularizers=feddecorr", "partition.alpha=inf"), folder / "b"))
    return folder


def test_there_is_a_row_for_each_round(runs: Path) -> None:
    table = package.load_runs(runs)
    assert table["round"].tolist() == [1, 2, 3, 1, 2]
    assert table["run"].nunique() == 2
    last = RunDirectory.open(runs / "a").rounds()[-1]
    assert table["accuracy"][2] == last.accuracy
    assert table["accuracy"][:2].isna().all()
    assert table["term.cross_entropy"][2] == last.terms["cross_entropy"]
    assert table["term.feddecorr"].notna().tolist() == [False] * 3 + [True] * 2
    assert table["setting.regularizers.feddecorr.beta"].dropna().unique().tolist() == [0.1]


@pytest.mark.parametrize(("ending", "read"), [("csv", pd.read_csv), ("parquet", pd.read_parquet)])
def test_files_hold_the_same_table(
    ending: str, read: Callable[[Path], pd.DataFrame], runs: Path, tmp_path: Path, feddecorr: CommandLine
) -> None:
    assert feddecorr("export", runs, "-o", tmp_path / f"runs.{ending}").code == 0
    both = read(tmp_path / f"runs.{ending}"), package.load_runs(runs)
    stored, table = (each.replace("", None).dropna(axis=1, how="all") for each in both)
    pd.testing.assert_frame_equal(stored, table, check_dtype=False)
