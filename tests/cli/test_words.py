"""What people type first works, or is answered by what works."""

import io
from pathlib import Path

import pytest
from command_line import CommandLine
from small import small, write_settings

from feddecorr.cli.console import print_table
from feddecorr.runs.pipeline import run


def test_a_kind_is_listed_by_its_name(feddecorr: CommandLine) -> None:
    for word in ("fedprox", "FedProx"):
        found = feddecorr("list", word, "--json").document
        assert list(found) == ["method"]
        assert list(found["method"]) == ["fedprox"]
        assert "method.mu" in feddecorr("list", word).out
    assert "did you mean 'fedprox'" in feddecorr("list", "fedporx").err


@pytest.mark.parametrize(
    ("words", "setting"),
    [
        (["--rounds", "1"], "rounds=1"),
        (["--lr=0.1"], "lr=0.1"),
        (["--partition.alpha", "0.1"], "partition.alpha=0.1"),
        (["--batch-size"], None),
        (["--truts"], None),
    ],
)
def test_a_setting_with_dashes_is_shown_without(feddecorr: CommandLine, words: list[str], setting: str | None) -> None:
    refused = feddecorr("run", *words)
    assert refused.code == 2
    said = f"error: {words[0].partition('=')[0]} is no option but a setting, which has no dashes: {setting}\n"
    assert refused.err == said if setting else "No such option" in refused.err


def test_a_report_takes_folders_of_runs(feddecorr: CommandLine, tmp_path: Path) -> None:
    for seed in (1, 2):
        list(run(*small("rounds=1", f"seed={seed}"), tmp_path / "runs" / f"run-{seed}"))
    (tmp_path / "runs" / "begun").mkdir()
    file = tmp_path / "runs" / "begun" / "experiment.json"
    file.write_text((tmp_path / "runs" / "run-1" / "experiment.json").read_text())
    pages = [tmp_path / "folder.html", tmp_path / "runs.html"]
    runs = [tmp_path / "runs" / "run-1", tmp_path / "runs" / "run-2"]
    assert feddecorr("report", tmp_path / "runs", "-o", pages[0]).code == 0
    assert feddecorr("report", *runs, "-o", pages[1]).code == 0
    assert pages[0].read_text() == pages[1].read_text()
    assert "has no finished round yet" in feddecorr("report", file.parent).err
    (tmp_path / "empty").mkdir()
    assert "no run with a finished round in" in feddecorr("report", tmp_path / "empty").err


def test_names_and_sentences_are_whole_in_eighty_columns(
    feddecorr: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "80")
    assert "..." not in feddecorr("--help").out.partition("Commands:")[2]
    shown = Terminal()
    monkeypatch.setattr("sys.stdout", shown)
    name = "evaluation.measures.explained_variance.components"
    print_table(["setting", "default"], [[name, "word " * 40]])
    assert name in shown.getvalue()


def test_a_batch_of_one_is_refused_where_the_network_has_batch_statistics(
    feddecorr: CommandLine, tmp_path: Path
) -> None:
    settings = write_settings(tmp_path / "small.json")
    out = tmp_path / "run"
    words = ["run", settings, "batch=1", "rounds=1", "epochs=1", "model.widths=[4,8,8]", "--out", out]
    refused = feddecorr(*words)
    assert refused.code == 2
    assert "error: training.batch=1: use batches of at least two, or a network without BatchNorm" in refused.err
    assert not (out / "experiment.json").exists()
    assert feddecorr(*words, "model=mlp").code == 0


def test_a_learning_rate_that_is_too_high_is_a_sentence(feddecorr: CommandLine, tmp_path: Path) -> None:
    failed = feddecorr("run", write_settings(tmp_path / "s.json"), "lr=1e6", "rounds=9", "--out", tmp_path / "run")
    assert failed.code == 1
    assert "Traceback" not in failed.err
    assert failed.err.splitlines()[-1].endswith("lower training.lr")
