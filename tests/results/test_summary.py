import json
import math
import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from made_up import summary as made_up
from small import small

from feddecorr.cli.show import choose_runs
from feddecorr.config.overrides import read_overrides
from feddecorr.core.trust import CLOSED
from feddecorr.errors import UserError
from feddecorr.paper.claims.evidence import runs_of
from feddecorr.report.run_figures import FIGURES, FigureData
from feddecorr.results.summary import STATISTICS, Summary, read_summaries, smooth, write_summaries
from feddecorr.results.tables import load_runs, tabulate
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import run
from feddecorr.settings.flat import command, parse_settings, to_settings

EVALUATED = ["evaluation.clients=true", "evaluation.every=1", "evaluation.label_measures=always"]

RECORDS: list[Any] = []
"""What the run yielded."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    path = tmp_path_factory.mktemp("runs") / "a"
    RECORDS[:] = run(*small("rounds=12", *EVALUATED, "regularizers=feddecorr"), path)
    return RunDirectory.open(path)


@pytest.fixture(scope="module")
def summary(directory: RunDirectory) -> Summary:
    return Summary.of(directory)


def test_a_summary_survives_its_line_of_json(summary: Summary) -> None:
    assert Summary.from_dict(json.loads(json.dumps(summary.to_dict()))) == summary


def test_a_record_from_before_a_setting_existed_has_its_default(summary: Summary) -> None:
    """It is found by the same address as a run of today, and can be compared with it."""
    stored = json.loads(json.dumps(summary.to_dict()))
    del stored["options"]["evaluation"]["final"], stored["experiment"]["regularizers"]["feddecorr"]["normalization"]
    assert Summary.from_dict({**stored, "digest": "of that day"}) == summary


def test_a_record_of_somebodys_own_kind_is_taken_as_it_is(summary: Summary) -> None:
    """Its numbers can still be shown."""
    stored = {**summary.to_dict(), "experiment": {**summary.experiment, "method": {"name": "nowhere:Method"}}}
    found = Summary.from_dict(stored)
    experiment, options = parse_settings({**stored["experiment"], **stored["options"]}, CLOSED)
    assert found.to_dict() == {**stored, "digest": experiment.digest(), "command": command(experiment, options)}


def test_it_says_what_the_run_recorded(directory: RunDirectory, summary: Summary) -> None:
    """Exactly, but for milliseconds and seven digits of spectra; only the last ones, global and local, are there."""
    lines = [json.loads(line) for line in (directory.path / "rounds.jsonl").read_text().splitlines()]
    assert [line["model"]["accuracy"] for line in summary.rounds] == [record.accuracy for record in RECORDS]
    assert [line["terms"] for line in summary.rounds] == [line["terms"] for line in lines]
    assert summary.spectrum is not None
    assert summary.spectrum == pytest.approx(RECORDS[-1].singular_values, rel=1e-5)
    assert summary.spectrum == [float(f"{value:.6g}") for value in summary.spectrum]
    assert {client: model["accuracy"] for client, model in summary.local_models.items()} == {
        client: model["accuracy"] for client, model in lines[-1]["local_models"].items()
    }
    assert all(isinstance(value, int | float) for line in summary.rounds for value in line["model"].values())
    assert summary.digest == directory.settings()[0].digest()


def test_its_command_does_the_run_again(summary: Summary) -> None:
    program, verb, *words = shlex.split(summary.command)
    assert (program, verb) == ("feddecorr", "run")
    assert to_settings(*parse_settings(read_overrides(words))) == summary.settings


def test_statistics_are_of_evaluated_rounds(summary: Summary) -> None:
    accuracies = [line["model"]["accuracy"] for line in summary.rounds]
    assert summary.statistic("last") == accuracies[-1]
    assert summary.statistic("last_ten") is None  # of a run of twelve rounds, its end is not the last ten
    assert summary.statistic("transient") == pytest.approx(fmean(accuracies))
    assert set(STATISTICS) == {"last", "last_ten", "best", "transient", "smoothed"}
    assert summary.statistic("smoothed") is None
    assert summary.statistic("best") == max(accuracies)
    assert summary.statistic("last", "effective_rank") == summary.rounds[-1]["model"]["effective_rank"]
    assert summary.statistic("last", rounds=3) == accuracies[2]
    assert summary.statistic("last", "no_such_measure") is None


def test_a_long_run_has_an_end_and_a_transient() -> None:
    """The last ten of twenty rounds, and those in which the learning rate is at least half of the first."""
    curve = [float(number) for number in range(1, 21)]
    constant = made_up("rounds=20", accuracy=curve)
    assert constant.statistic("last_ten") == pytest.approx(15.5)
    assert constant.statistic("transient") == pytest.approx(10.5)
    assert constant.trains_to_the_end
    falling = made_up("rounds=20 training.schedule=cosine training.schedule.over=20", accuracy=curve)
    assert falling.statistic("transient") == pytest.approx(6.0)  # in round 11 it is half of the first
    assert not falling.trains_to_the_end
    held = made_up(
        "rounds=20 training.schedule=cosine training.schedule.hold=15 training.schedule.over=5", accuracy=curve
    )
    assert held.statistic("transient") == pytest.approx(9.5)


def test_smoothed_accuracy_is_the_running_average_with_parameter_nine_tenths() -> None:
    """As s ← 0.9·s + 0.1·a gives it round by round, but for its start; a constant is itself, after any gaps."""
    curve = [0.1 + 0.8 * math.sin(number) ** 2 for number in range(1, 201)]
    running = 0.0
    for value in curve:
        running = 0.9 * running + 0.1 * value
    assert made_up("rounds=200", accuracy=curve).statistic("smoothed") == pytest.approx(running, abs=1e-9)
    assert [value for _, value in smooth([(5, 0.3), (6, 0.3), (40, 0.3)])] == pytest.approx([0.3] * 3)
    gap = [value for _, value in smooth([(1, 0.0), (2, 1.0), (4, 1.0)])]
    assert gap == pytest.approx([0.0, 1 / 1.9, (0.81 + 1) / (0.9**3 + 0.81 + 1)])
    assert made_up("rounds=19", accuracy=0.5).statistic("smoothed") is None


@pytest.mark.parametrize(
    "words", [["rounds=5"], ["evaluation.every=5", "evaluation.final=3"], ["rounds=7", "evaluation.every=3"]]
)
def test_a_shared_run_is_seen_as_if_it_had_been_run_as_asked(
    directory: RunDirectory, summary: Summary, tmp_path: Path, words: list[str]
) -> None:
    """Whatever else has been asked of a run, a study sees what it would see alone."""
    asked, asked_options = small("rounds=12", *EVALUATED, "regularizers=feddecorr", *words)
    list(run(asked, asked_options, tmp_path / "alone"))
    alone = Summary.of(RunDirectory.open(tmp_path / "alone"))
    shared = Summary.of(directory, asked_options)
    assert [line | {"seconds": 0} for line in shared.rounds] == [line | {"seconds": 0} for line in alone.rounds]
    assert shared.spectrum == alone.spectrum
    assert shared.local_models == alone.local_models
    assert (shared.experiment, shared.command) == (alone.experiment, alone.command)
    record = summary.as_asked(asked_options)
    assert record.rounds == shared.rounds
    assert record.spectrum == (shared.spectrum if asked_options.rounds == 12 else None)


def test_records_are_read_from_files_and_folders_and_counted_once(directory: RunDirectory, tmp_path: Path) -> None:
    """The one with more rounds counts; a run without a finished round does not."""
    summary = Summary.of(directory)
    shorter = summary.as_asked(small("rounds=5", *EVALUATED).options)
    other = Summary.from_dict({**summary.to_dict(), "experiment": {**summary.experiment, "seed": 5}})
    write_summaries(tmp_path / "deep" / "records.jsonl", [shorter, other])
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "experiment.json").write_text(json.dumps(small().experiment.to_dict()))
    found = read_summaries([tmp_path / "deep" / "records.jsonl", directory.path.parent, tmp_path / "begun"])
    assert found == [summary, other]
    write_summaries(tmp_path / "again.jsonl", found)
    assert read_summaries([tmp_path / "again.jsonl"]) == found


def test_a_file_that_holds_no_records_is_named_with_its_line(summary: Summary, tmp_path: Path) -> None:
    (tmp_path / "wrong.jsonl").write_text('{"digest": "a"}\n')
    with pytest.raises(UserError, match=r"wrong\.jsonl, line 1: not the record of a run"):
        read_summaries([tmp_path / "wrong.jsonl"])
    lines = [{"round": number} for number in range(1, 100)]
    (tmp_path / "wrong.jsonl").write_text(json.dumps(asdict(summary) | {"rounds": lines}) + "\n")
    with pytest.raises(UserError, match=r"^[^\n]*line 1: not the record of a run \(0\.model: Field required\)[^\n]*$"):
        read_summaries([tmp_path / "wrong.jsonl"])
    with pytest.raises(UserError, match="there is no file or directory"):
        read_summaries([tmp_path / "nothing"])


def changed(table: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the table with each of its settings, also of tables in it, once misspelled and once something else."""
    for key, value in table.items():
        rest = {name: other for name, other in table.items() if name != key}
        yield {**rest, key.upper(): value}
        yield {**table, key: 7.5}
        yield {**table, key: {"name": "nothing known"}}
        for inner in changed(value) if isinstance(value, dict) else ():
            yield {**table, key: inner}


def test_settings_that_cannot_be_read_here_keep_nobody_from_the_numbers(summary: Summary, tmp_path: Path) -> None:
    """Whichever of them is missing or strange: a record is shown, or refused by its line."""
    path = tmp_path / "r.jsonl"
    shown = 0
    for settings in changed(summary.experiment):
        path.write_text(json.dumps(summary.to_dict() | {"experiment": settings}) + "\n")
        try:
            found = choose_runs([path], ["rounds > 0 and regularizers != nothing"])
        except UserError:
            continue
        shown += 1
        tabulate(found, by=[], columns=None, measure="accuracy", statistic="best")
        load_runs(path)
        runs_of(found)
        with suppress(UserError):  # there is only one beta
            FIGURES["beta"](FigureData(found, {}))
        FIGURES["local-spectra"](FigureData(found, {}))
    assert shown > 100


def test_a_record_of_tables_within_tables_is_refused(summary: Summary, tmp_path: Path) -> None:
    """All that looks into it goes as deep, and Python has an end."""
    for where in ("experiment", "environment"):
        for start, end in (('{"a":', "}"), ("[", "]")):
            deep = json.dumps(summary.to_dict() | {where: {**getattr(summary, where), "x": 0}})
            (tmp_path / "r.jsonl").write_text(deep.replace('"x": 0', f'"x": {start * 900}0{end * 900}') + "\n")
            with pytest.raises(UserError, match="line 1: not the record of a run"):
                read_summaries([tmp_path / "r.jsonl"])
