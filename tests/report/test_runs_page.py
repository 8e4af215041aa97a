import json
import re
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from command_line import CommandLine
from small import forget_models, small

from feddecorr.errors import RunError, UserError
from feddecorr.report.picture import COLOURS
from feddecorr.report.runs_page import group_seeds, write_report
from feddecorr.results.summary import Summary
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    directory = tmp_path_factory.mktemp("runs")
    words = {
        "plain": ["rounds=2"],
        "with<b>": ["rounds=2", "regularizers=feddecorr"],
        "other": ["seed=1", "rounds=1", "evaluation.clients=true"],
    }
    for name, changes in words.items():
        list(run(*small(*changes), directory / name))
    return [directory / name for name in words]


def test_the_page_needs_no_network(runs: list[Path], tmp_path: Path) -> None:
    write_report(runs, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert not re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=", page)


def test_every_run_is_in_the_page_with_its_numbers(runs: list[Path], tmp_path: Path) -> None:
    write_report(runs, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    for heading in ("Singular spectra", "Accuracy per round", "Examples by client and class", "Settings"):
        assert f"<h2>{heading}</h2>" in page
    assert "regularizers.feddecorr.beta" in page
    assert page.count("<h2>Examples by client and class</h2>") == 2  # the first two share a split


def test_every_term_of_the_objective_is_drawn_with_each_run_in_its_colour(runs: list[Path], tmp_path: Path) -> None:
    """A run that has no such term has no line, and lends its colour to no other."""
    write_report(runs, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    headings = re.findall("<h2>(Objective.*)</h2>", page)
    assert headings == ["Objective: cross_entropy per round", "Objective: feddecorr per round"]
    drawn = page.split("<h2>Objective: feddecorr per round</h2>")[1].split("</section>")[0]
    assert COLOURS[1] in drawn
    assert COLOURS[0] not in drawn


def test_averaging_is_drawn_for_runs_that_looked_at_clients(runs: list[Path], tmp_path: Path) -> None:
    heading = "<h2>Rank kept by averaging per round</h2>"
    write_report(runs, tmp_path / "report.html")
    assert heading in (tmp_path / "report.html").read_text()
    write_report(runs[:2], tmp_path / "report.html")
    assert heading not in (tmp_path / "report.html").read_text()


def test_runs_without_test_images_have_a_report_too(tmp_path: Path) -> None:
    """What was never measured is left out; how they trained is there. Among others, they have no line."""
    for name in ("blind", "seeing"):
        list(run(*small("rounds=2"), tmp_path / name))
    forget_models(tmp_path / "blind")
    write_report([tmp_path / "blind"], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    for heading in ("Singular spectra", "Accuracy per round", "Effective rank per round"):
        assert f"<h2>{heading}</h2>" not in page
    assert "<h2>Objective: cross_entropy per round</h2>" in page
    assert re.search(r'<td>FedAvg</td><td class="number">2</td>.*<td>blind</td>', page)
    write_report([tmp_path / "blind", tmp_path / "seeing"], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    accuracy = page.split("<h2>Accuracy per round</h2>")[1].split("</section>")[0]
    assert "seeing" in accuracy
    assert "blind" not in accuracy


def test_a_run_without_a_finished_round_is_refused(tmp_path: Path) -> None:
    records = run(*small("method=outside:Failing", "method.round=1"), tmp_path / "run")
    with pytest.raises(RunError):
        next(records)
    with pytest.raises(UserError, match="no finished round yet"):
        write_report([tmp_path / "run"], tmp_path / "report.html")


def test_names_are_text_and_never_markup(runs: list[Path], tmp_path: Path) -> None:
    write_report(runs, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "<td>with&lt;b&gt;</td>" in page
    assert "<td>with<b></td>" not in page


def test_runs_of_the_same_name_are_distinguished(tmp_path: Path) -> None:
    for parent in ("a", "b"):
        list(run(*small("rounds=1"), tmp_path / parent / "run"))
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


def drawn(page: str, heading: str) -> list[dict[str, Any]]:
    section = page.split(f"<h2>{heading}</h2>")[1].split("</section>", maxsplit=1)[0]
    figure = json.loads(section.split('<script type="application/json">')[1].split("</script>")[0])
    found: list[dict[str, Any]] = figure["data"]
    return found


def test_seeds_are_one_line_with_a_band_and_one_switch(tmp_path: Path) -> None:
    """Mean and one standard deviation, by hand; a run that is not done stays by itself, for it has not come as far."""
    for name, words in {"a0": [], "a1": ["seed=1"], "b": ["method=fedprox"], "late": ["seed=2"]}.items():
        records = run(*small("rounds=2", *words), tmp_path / name)
        next(records)
        if name != "late":
            list(records)
        records.close()
    write_report([tmp_path / name for name in ("a0", "a1", "b", "late")], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    above, below, mean, *others = drawn(page, "Accuracy per round")
    names = ["FedAvg (a0, a1)", "FedAvg (late)", "FedProx (μ = 0.001)"]
    assert [line["name"] for line in (mean, *others)] == names
    for place, y in enumerate(mean["y"]):
        both = [100 * (RunDirectory.open(tmp_path / name).rounds()[place].accuracy or 0.0) for name in ("a0", "a1")]
        assert y == pytest.approx(fmean(both))
        assert [above["y"][place], below["y"][place]] == pytest.approx([y + stdev(both), y - stdev(both)])
    assert re.findall(r'data-run="(.*?)"', page) == names
    assert '<td>seed</td><td class="number">0, 1</td><td class="number">2</td><td class="number">0</td>' in page
    numbers = r'<td class="number">2</td><td class="number">2</td><td class="number">\d+\.\d ± \d+\.\d</td>'
    assert re.search(rf"<td>FedAvg \(a0, a1\)</td>{numbers}", page)
    assert "this is that of seed 0" in page


def test_lines_have_the_names_of_papers_in_the_order_of_their_settings() -> None:
    """Whatever their directories are called: these tell apart what nothing else does."""
    words = {
        "z": "partition.alpha=0.5 method=fedprox",
        "y": "partition.alpha=0.05 regularizers=feddecorr",
        "x": "partition.alpha=0.05",
        "x1": "partition.alpha=0.05 seed=1",
    }
    settings = {name: small("rounds=1", *each.split()) for name, each in words.items()}
    runs = {
        name: Summary("", each.to_dict(), options.to_dict(), "", {}, [{}], None, {}, {})
        for name, (each, options) in settings.items()
    }
    found = {line.name: list(line.runs) for line in group_seeds(runs)}
    assert found == {
        "FedAvg, α = 0.05": ["x", "x1"],
        "FedAvg + FedDecorr, α = 0.05": ["y"],
        "FedProx (μ = 0.001), α = 0.5": ["z"],
    }


def test_copies_of_a_run_are_no_seeds(tmp_path: Path) -> None:
    for name in ("one", "two"):
        list(run(*small("rounds=1"), tmp_path / name))
    write_report([tmp_path / "one", tmp_path / "two"], tmp_path / "report.html")
    lines = drawn((tmp_path / "report.html").read_text(), "Accuracy per round")
    assert [line["name"] for line in lines] == ["FedAvg (one)", "FedAvg (two)"]
