from pathlib import Path

import pytest
from command_line import CommandLine
from made_up import over_seeds

from feddecorr.results.summary import STATISTICS, write_summaries

MARKDOWN = """\
| method | α = 0.05 | α = 0.5 |
| --- | ---: | ---: |
| FedAvg | 50.00 ± 14.14 | **80.00** |
| MOON (μ = 1.0) | **60.00** | – |
"""
LATEX = r"""\begin{tabular}{lrr}
\toprule
method & $\alpha$ = 0.05 & $\alpha$ = 0.5 \\
\midrule
FedAvg & $50.00 \pm 14.14$ & $\mathbf{80.00}$ \\
MOON ($\mu$ = 1.0) & $\mathbf{60.00}$ & -- \\
\bottomrule
\end{tabular}
"""
CSV = """\
method,α = 0.05 mean,α = 0.05 deviation,α = 0.05 seeds,α = 0.5 mean,α = 0.5 deviation,α = 0.5 seeds
FedAvg,50.00,14.14,2,80.00,,1
MOON (μ = 1.0),60.00,,1,,,0
"""


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Return records with two seeds of one combination, one of two others, and none of the fourth."""
    runs = [
        *over_seeds("partition.alpha=0.05", [0.4, 0.6]),
        *over_seeds("partition.alpha=0.5", [0.8]),
        *over_seeds("partition.alpha=0.05 method=moon", [0.6]),
    ]
    write_summaries(tmp_path / "runs.jsonl", runs)
    return tmp_path / "runs.jsonl"


@pytest.mark.parametrize(("format_", "expected"), [("markdown", MARKDOWN), ("latex", LATEX), ("csv", CSV)])
def test_tables_are_written_for_papers(feddecorr: CommandLine, records: Path, format_: str, expected: str) -> None:
    """Mean ± standard deviation, the best of each column in bold, what was not run as missing."""
    done = feddecorr("table", records, "--columns", "partition.alpha", "--by", "method", "--format", format_)
    assert (done.code, done.out) == (0, expected)


@pytest.mark.parametrize("columns", ["partition.alpha", "regularizers"])
def test_the_better_of_with_and_without_is_bold(feddecorr: CommandLine, tmp_path: Path, columns: str) -> None:
    """In each pair, wherever its two numbers stand; the file's ending tells the format."""
    runs = [
        *over_seeds("partition.alpha=0.05 regularizers=none", [0.4]),
        *over_seeds("partition.alpha=0.05 regularizers=feddecorr", [0.5]),
        *over_seeds("partition.alpha=0.5 regularizers=none", [0.9]),
        *over_seeds("partition.alpha=0.5 regularizers=feddecorr", [0.8]),
    ]
    write_summaries(tmp_path / "runs.jsonl", runs)
    done = feddecorr("table", tmp_path / "runs.jsonl", "--columns", columns, "-o", tmp_path / "table.tex")
    assert done.code == 0, done.err
    written = (tmp_path / "table.tex").read_text()
    assert all(f"$\\mathbf{{{best}}}$" in written for best in ("50.00", "90.00"))
    assert written.count("mathbf") == 2
    assert "FedAvg + FedDecorr" in written
    refused = feddecorr("table", tmp_path / "runs.jsonl", "-o", tmp_path / "table.doc")
    assert (refused.code, ".tex" in refused.err) == (2, True)


def test_without_columns_every_statistic_is_shown(feddecorr: CommandLine, records: Path) -> None:
    done = feddecorr("table", records)
    headings, *rows = done.out.splitlines()
    assert all(name in headings for name in STATISTICS.values())
    assert len(rows) == 3
    assert sum("80.00*" in row for row in rows) == 1


def test_the_document_has_every_number(feddecorr: CommandLine, records: Path) -> None:
    done = feddecorr("table", records, "--measure", "effective_rank", "--columns", "partition.alpha", "--json")
    assert done.document[0]["values"]["partition.alpha=0.05"] == {
        "mean": 4.0,
        "deviation": 0.0,
        "seeds": 2,
        "best": True,
    }
    assert done.document[1]["values"]["partition.alpha=0.5"] == {
        "mean": None,
        "deviation": None,
        "seeds": 0,
        "best": False,
    }


def test_conditions_choose_the_runs_of_every_command_that_takes_records(
    feddecorr: CommandLine, records: Path, tmp_path: Path
) -> None:
    """As in a sweep; what nobody fulfils is refused."""
    rows = feddecorr("table", records, "--where", "method = fedavg", "--where", "partition.alpha < 0.1", "--json")
    assert [row["values"]["last round"]["mean"] for row in rows.document] == [0.5]
    kept = feddecorr("records", records, "--where", "method = moon", "-o", tmp_path / "moon.jsonl", "--json")
    assert kept.document["runs"] == 1
    drawn = feddecorr("figure", "accuracy", records, "--where", "method = moon", "-o", tmp_path / "a.svg", "--json")
    assert drawn.document["runs"] == 1
    refused = feddecorr("compare", records, "--where", "method = fednova")
    assert (refused.code, "none of 4 runs fulfils" in refused.err) == (2, True)


def test_what_there_is_not_is_refused(feddecorr: CommandLine, records: Path) -> None:
    for words, reason in {
        ("--format", "html"): "there is no --format html",
        ("--measure", "acuracy"): "no run has measured 'acuracy'",
        ("--by", "alpha"): "no run has a setting 'alpha'",
        ("--columns", "partition.alpha", "--statistic", "median"): "not 'median'",
    }.items():
        done = feddecorr("table", records, *words)
        assert (done.code, done.out) == (2, "")
        assert reason in done.err


def test_words_of_settings_are_safe_in_every_format(feddecorr: CommandLine, tmp_path: Path) -> None:
    """An ampersand or a bar in a name breaks no row."""
    runs = [*over_seeds("data=folder:/a&b_c", [0.5]), *over_seeds("data=folder:/a|b", [0.6])]
    write_summaries(tmp_path / "runs.jsonl", runs)
    latex = feddecorr("table", tmp_path / "runs.jsonl", "--format", "latex").out
    assert r"/a\&b\_c" in latex
    assert r"/a\|b" in feddecorr("table", tmp_path / "runs.jsonl", "--format", "markdown").out
