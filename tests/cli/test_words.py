"""What people type first works, or is answered by what works."""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import click
import pytest
from command_line import CommandLine, get_command
from small import small, write_settings

from feddecorr.cli import app
from feddecorr.cli.console import print_table
from feddecorr.runs.evaluation import evaluated_images
from feddecorr.runs.pipeline import run
from feddecorr.settings.short_keys import read_settings


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
    for group in ((), ("data",), ("flower",), ("theory",)):
        assert "..." not in feddecorr(*group, "--help").out.partition("Commands:")[2]
    shown = Terminal()
    monkeypatch.setattr("sys.stdout", shown)
    name = "evaluation.measures.explained_variance.components"
    print_table(["setting", "default"], [[name, "word " * 40]])
    assert name in shown.getvalue()


def commands(group: click.Group, *words: str) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, *words, name)
        else:
            yield *words, name


@pytest.mark.parametrize("words", list(commands(cast("click.Group", get_command(app)))), ids=" ".join)
def test_examples_of_the_help_are_whole_and_values_are_words(
    feddecorr: CommandLine, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """Each can be pasted into a shell as it stands, whatever the terminal's width, and fits into 80 columns."""

    def examples() -> list[str]:
        shown = feddecorr(*words, "--help").out.replace("\\\n", "")
        return [line.strip() for line in shown.splitlines() if line.startswith("      feddecorr")]

    monkeypatch.setenv("COLUMNS", "300")
    wide = examples()
    monkeypatch.setenv("COLUMNS", "60")
    assert examples() == wide
    monkeypatch.setenv("COLUMNS", "80")
    shown = feddecorr(*words, "--help").out
    assert max(map(len, shown.splitlines())) <= 80
    assert len(wide) == shown.count(" feddecorr ") - shown.count("Usage: feddecorr ")
    assert not re.search(r"--\S+ (TEXT|INTEGER|FLOAT)", shown)


def test_spaces_around_a_setting_and_its_value_do_not_matter() -> None:
    assert read_settings(["lr = 0.1", "data= digits"]) == read_settings(["lr=0.1", "data=digits"])


def test_the_work_of_very_many_rounds_is_counted_at_once() -> None:
    experiment, options = small("rounds=7", "evaluation.every=3", "evaluation.final=2")

    def evaluated(**settings: Any) -> int:
        changed = options.model_copy(
            update={"rounds": settings.pop("rounds", 7), "evaluation": options.evaluation.model_copy(update=settings)}
        )
        return evaluated_images(experiment, changed, 100, 10)

    cohort = int(experiment.cohort)
    assert evaluated() == 10 * 3  # rounds 3, 6 and 7
    assert evaluated(clients=True) == 10 * 3 * (1 + cohort)
    assert evaluated(clients="last") == 10 * (3 + cohort)
    assert evaluated(final=100) == 10 * 7
    assert evaluated(rounds=3 * 10**15) == 10 * (10**15 + 1)


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
