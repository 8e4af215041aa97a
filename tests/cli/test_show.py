import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from command_line import CommandLine
from small import forget_models, small

from feddecorr.config.training import Evaluation, Training
from feddecorr.core.registry import Config
from feddecorr.errors import RunError
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import run
from feddecorr.settings.options import REGISTRIES


def test_show_prints_a_line_for_each_round(feddecorr: CommandLine, tmp_path: Path) -> None:
    list(run(*small("evaluation.every=2", "regularizers=feddecorr"), tmp_path / "run"))
    lines = feddecorr("show", tmp_path / "run").out.splitlines()
    assert len(lines) == 2 + 3
    assert lines[1].split()[:3] == ["round", "accuracy", "loss"]
    assert "feddecorr" in lines[1]
    assert lines[2].split()[1] == "–"
    assert lines[3].split()[1] != "–"


def test_show_has_no_column_for_what_was_never_measured(feddecorr: CommandLine, tmp_path: Path) -> None:
    list(run(*small("rounds=2"), tmp_path / "run"))
    forget_models(tmp_path / "run")
    lines = feddecorr("show", tmp_path / "run").out.splitlines()
    assert lines[1].split() == ["round", "cross_entropy", "kB", "sent", "kB", "received", "seconds"]
    assert len(lines[2].split()) == 5


def test_show_tells_what_travelled_and_the_ranks_of_adapters(feddecorr: CommandLine, tmp_path: Path) -> None:
    lora = ("training.adapter=lora", "training.adapter.rank=2")
    (record,) = run(*small("rounds=1", "evaluation.every=1", *lora), tmp_path / "run")
    _, headings, cells = feddecorr("show", tmp_path / "run").out.splitlines()
    sent = f"{(record.sent or 0) / 1000:.1f}"
    assert headings.split()[-10:] == ["rank", "of", "B·A", "averaged", "B·A", "kB", "sent", "kB", "received", "seconds"]
    *_, one, other, out, back, _ = cells.split()
    assert (out, back) == (sent, sent)
    assert float(one) == pytest.approx(fmean(ranks.factors for ranks in record.adapters.values()), abs=0.01)
    assert float(other) == pytest.approx(fmean(ranks.products for ranks in record.adapters.values()), abs=0.01)


def test_show_counts_the_clients_that_are_missing(feddecorr: CommandLine, tmp_path: Path) -> None:
    list(run(*small("rounds=1"), tmp_path / "run"))
    (record,) = RunDirectory.open(tmp_path / "run").rounds()
    line = json.dumps(replace(record, missing={1: "no answer", 3: "no answer"}).to_dict())
    (tmp_path / "run" / "rounds.jsonl").write_text(line + "\n")
    _, headings, cells = feddecorr("show", tmp_path / "run").out.splitlines()
    assert headings.split()[-6:] == ["missing", "kB", "sent", "kB", "received", "seconds"]
    assert cells.split()[-4] == "2"


def test_show_speaks_json(feddecorr: CommandLine, tmp_path: Path) -> None:
    list(run(*small("rounds=1"), tmp_path / "run"))
    document = feddecorr("show", tmp_path / "run", "--json").document
    assert document["experiment"]["rounds"] == 1
    assert len(document["rounds"][0]["model"]["singular_values"]) == 16


def test_an_unfinished_run_says_how_to_go_on(feddecorr: CommandLine, tmp_path: Path) -> None:
    records = run(*small(), tmp_path / "run")
    next(records)
    shown = feddecorr("show", tmp_path / "run")
    assert "1 of 3 rounds" in shown.out
    assert "feddecorr resume" in shown.err


def test_a_run_without_a_finished_round_says_so(feddecorr: CommandLine, tmp_path: Path) -> None:
    with pytest.raises(RunError):
        next(run(*small("method=outside:Failing", "method.round=1"), tmp_path / "run"))
    shown = feddecorr("show", tmp_path / "run")
    assert (shown.code, shown.out) == (
        0,
        f"{tmp_path / 'run'}: no round of 3 is finished; 'feddecorr resume {tmp_path / 'run'}' continues\n",
    )
    for words in (["diagnose", tmp_path / "run"], ["export", tmp_path / "run", "--to", "onnx", "-o", "m.onnx"]):
        refused = feddecorr(*words, "--trust")
        assert refused.code == 2
        assert "has no finished round yet" in refused.err


def test_list_names_every_kind(feddecorr: CommandLine) -> None:
    listed = feddecorr("list").out
    for family in REGISTRIES.values():
        for name, cls in family.table.items():
            assert name in listed
            assert cls.line() in listed


@pytest.mark.parametrize("word", ["method", "methods", "partition", "regularizers", "data", "engines"])
def test_list_of_a_family_shows_its_options(feddecorr: CommandLine, word: str) -> None:
    listed = feddecorr("list", word)
    assert listed.code == 0
    family = next(found for setting, found in REGISTRIES.items() if setting.rstrip("s") == word.rstrip("s"))
    for cls in family.table.values():
        assert all(option in listed.out for option in cls.model_fields)


@pytest.mark.parametrize(("word", "kind"), [("training", Training), ("evaluation", Evaluation)])
def test_options_that_belong_to_no_family_are_listed_too(feddecorr: CommandLine, word: str, kind: type[Config]) -> None:
    """With their defaults."""
    rows = [line.split() for line in feddecorr("list", word).out.splitlines()]
    defaults = {row[0]: row[1] for row in rows if len(row) > 1}
    assert {f"{word}.{option}" for option in kind.model_fields} <= defaults.keys()
    assert defaults.get("evaluation.every", "auto") == "auto"
    assert defaults.get("training.schedule", "constant") == "constant"


def test_list_speaks_json(feddecorr: CommandLine) -> None:
    document = feddecorr("list", "--json").document
    assert document["partition"]["dirichlet"]["options"]["alpha"]["default"] == 0.5
    assert document["evaluation"]["evaluation"]["options"]["every"]["default"] == "auto"


def test_an_unknown_family_gets_the_nearest_name(feddecorr: CommandLine) -> None:
    refused = feddecorr("list", "metod")
    assert refused.code == 2
    assert "did you mean 'method'?" in refused.err


@pytest.mark.parametrize("command", ["run", "resume", "show", "report", "list", "demo"])
def test_help_teaches_with_an_example(feddecorr: CommandLine, command: str) -> None:
    helped = feddecorr(command, "--help")
    assert helped.code == 0
    assert f"feddecorr {command}" in helped.out
