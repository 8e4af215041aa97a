import json
from pathlib import Path

import pytest
from command_line import CommandLine
from small import forget_models, result, small, without_time, write_settings

from feddecorr.runs.pipeline import run
from feddecorr.server.federation import Simulation


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    return write_settings(tmp_path / "small.json")


def test_a_run_is_what_python_makes_of_the_same_words(feddecorr: CommandLine, tmp_path: Path, settings: Path) -> None:
    done = feddecorr("run", settings, "rounds=2", "regularizers=feddecorr", "--out", tmp_path / "run", "--json")
    assert done.code == 0
    expected = [record for record, _ in result(run(*small("rounds=2", "regularizers=feddecorr")))]
    assert [without_time(record) for record in done.document["rounds"]] == expected


def test_results_and_progress_go_separate_ways(feddecorr: CommandLine, tmp_path: Path, settings: Path) -> None:
    done = feddecorr("run", settings, "rounds=2", "--out", tmp_path / "run")
    assert done.out.count("\n") == 1
    assert "accuracy" in done.out
    assert "round 2/2" in done.err
    assert "\x1b" not in done.out + done.err


def test_without_test_images_the_terms_of_the_objective_are_reported(
    feddecorr: CommandLine, tmp_path: Path, settings: Path
) -> None:
    feddecorr("run", settings, "rounds=1", "--out", tmp_path / "run")
    forget_models(tmp_path / "run")
    reported = feddecorr("resume", tmp_path / "run")
    assert reported.code == 0
    assert "round 1, cross_entropy " in reported.out
    assert "accuracy" not in reported.out


def test_without_out_the_directory_is_named_by_the_experiment(
    feddecorr: CommandLine, tmp_path: Path, settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = feddecorr("run", settings, "rounds=1", "regularizers=feddecorr", "--json")
    directory = done.document["directory"]
    assert directory.startswith("runs/synthetic-fedavg+feddecorr-")
    assert (tmp_path / directory / "weights.safetensors").exists()


def test_a_directory_with_a_run_is_refused(feddecorr: CommandLine, tmp_path: Path, settings: Path) -> None:
    feddecorr("run", settings, "rounds=1", "--out", tmp_path / "run")
    before = (tmp_path / "run" / "weights.safetensors").read_bytes()
    refused = feddecorr("run", settings, "rounds=1", "seed=1", "--out", tmp_path / "run")
    assert refused.code == 2
    assert "feddecorr resume" in refused.err
    assert refused.out == ""
    assert (tmp_path / "run" / "weights.safetensors").read_bytes() == before


def test_bad_settings_are_refused_before_any_work(feddecorr: CommandLine, tmp_path: Path, settings: Path) -> None:
    refused = feddecorr("run", settings, "training.epoch=3", "--out", tmp_path / "run", "--json")
    assert refused.code == 2
    assert refused.out == ""
    assert "did you mean 'epochs'?" in refused.err
    assert not (tmp_path / "run").exists()


def test_an_impossible_split_leaves_no_run_behind(feddecorr: CommandLine, tmp_path: Path, settings: Path) -> None:
    refused = feddecorr("run", settings, "clients=1000", "--out", tmp_path / "run")
    assert refused.code == 2
    assert "lower clients or partition.minimum" in refused.err
    again = feddecorr("run", settings, "rounds=1", "--out", tmp_path / "run")
    assert again.code == 0


def test_a_failing_client_ends_with_its_name_and_the_way_on(
    feddecorr: CommandLine, tmp_path: Path, settings: Path
) -> None:
    failed = feddecorr("run", settings, "method=outside:Failing", "--out", tmp_path / "run")
    assert failed.code == 1
    assert "client 1 failed in round 2: ZeroDivisionError: on purpose" in failed.err
    assert f"feddecorr resume {tmp_path / 'run'}" in failed.err


def test_resume_goes_further_with_more_rounds(feddecorr: CommandLine, tmp_path: Path, settings: Path) -> None:
    feddecorr("run", settings, "rounds=1", "--out", tmp_path / "run")
    done = feddecorr("resume", tmp_path / "run", "rounds=3", "engine=pool", "engine.workers=1", "--json")
    assert [record["round"] for record in done.document["rounds"]] == [1, 2, 3]
    assert done.document["experiment"]["engine"] == {"name": "pool", "workers": 1, "devices": []}


def test_resume_of_a_finished_run_says_so(feddecorr: CommandLine, tmp_path: Path, settings: Path) -> None:
    feddecorr("run", settings, "rounds=1", "--out", tmp_path / "run")
    done = feddecorr("resume", tmp_path / "run")
    assert done.code == 0
    assert "all its 1 rounds" in done.err


@pytest.mark.parametrize("command", ["resume", "show", "report"])
def test_a_directory_without_a_run_is_named(feddecorr: CommandLine, tmp_path: Path, command: str) -> None:
    refused = feddecorr(command, tmp_path)
    assert refused.code == 2
    assert str(tmp_path) in refused.err


def test_the_stored_experiment_is_a_file_of_settings(feddecorr: CommandLine, tmp_path: Path, settings: Path) -> None:
    """A run can be done again from what it stored."""
    first = feddecorr("run", settings, "rounds=1", "partition.alpha=inf", "--out", tmp_path / "one", "--json")
    second = feddecorr("run", tmp_path / "one" / "experiment.json", "--out", tmp_path / "two", "--json")
    assert second.document["experiment"] == json.loads((tmp_path / "one" / "experiment.json").read_text())
    assert list(map(without_time, second.document["rounds"])) == list(map(without_time, first.document["rounds"]))


def test_a_dry_run_says_what_there_is_to_do_and_keeps_nothing(
    feddecorr: CommandLine, tmp_path: Path, settings: Path
) -> None:
    words = ("run", settings, "rounds=7", "evaluation.every=1", "--dry-run", "--out", tmp_path / "a")
    found = feddecorr(*words, "--json").document
    assert not (tmp_path / "a").exists()
    assert (found["rounds"], found["train"], found["test"]) == (7, 120, 40)
    assert found["images_per_round"] == 240  # two epochs of all that there is
    assert (found["images"], found["evaluated"]) == (7 * 240, 7 * 40)
    assert found["seconds"] == pytest.approx(found["seconds_per_image"] * (7 * 240 + 7 * 40 / 3) / found["processes"])
    assert "120 training and 40 test images of 8×8×1 in 4 classes" in feddecorr(*words).out


@pytest.mark.parametrize("engine", ["serial", "pool"])
@pytest.mark.parametrize("together", [1, 2])
def test_whoever_follows_a_round_sees_every_image_of_its_steps(engine: str, together: int) -> None:
    experiment, options = small("rounds=2", f"engine={engine}", f"training.clients_per_batch={together}")
    simulation = Simulation(experiment)
    counted = [simulation.trained_rounds() for _ in run(experiment, options, through=simulation)]
    assert counted == [1, 2]
