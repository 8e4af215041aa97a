import re
from pathlib import Path

import pytest
from command_line import CommandLine
from small import small

from feddecorr.errors import UserError
from feddecorr.report import write_report
from feddecorr.runs.pipeline import run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    directory = tmp_path_factory.mktemp("runs")
    words = {"plain": ["rounds=2"], "with<b>": ["rounds=2", "regularizers=feddecorr"], "other": ["seed=1", "rounds=1"]}
    for name, changes in words.items():
        list(run(small(*changes), directory / name))
    return [directory / name for name in words]


def test_the_page_needs_no_network(runs: list[Path], tmp_path: Path) -> None:
    write_report(runs, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert not re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=", page)


def test_every_run_is_in_the_page_with_its_numbers(runs: list[Path], tmp_path: Path) -> None:
    write_report(runs, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    for heading in ("Singular spectra", "Accuracy per round", "Who holds which labels", "Settings"):
        assert f"<h2>{heading}</h2>" in page
    assert "regularizers.feddecorr.beta" in page
    assert page.count("<h2>Who holds which labels</h2>") == 2  # the first two share a split


def test_names_are_text_and_never_markup(runs: list[Path], tmp_path: Path) -> None:
    write_report(runs, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "<td>with&lt;b&gt;</td>" in page
    assert "<td>with<b></td>" not in page


def test_runs_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    for parent in ("a", "b"):
        list(run(small("rounds=1"), tmp_path / parent / "run"))
    write_report([tmp_path / "a" / "run", tmp_path / "b" / "run"], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "<td>a/run</td>" in page
    assert "<td>b/run</td>" in page


def test_the_same_run_twice_is_refused(runs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="twice"):
        write_report([runs[0], runs[0]], tmp_path / "report.html")


def test_the_command_prints_where_the_page_is(feddecorr: CommandLine, runs: list[Path], tmp_path: Path) -> None:
    done = feddecorr("report", *runs, "-o", tmp_path / "deep" / "report.html", "--json")
    assert Path(done.document["report"]).is_file()
