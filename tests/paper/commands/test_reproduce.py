import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine
from own_studies import Broken, Own

from feddecorr.engines.pool import Pool
from feddecorr.paper import studies
from feddecorr.runs.directory import RunDirectory
from feddecorr.sweeps import runner
from feddecorr.sweeps.runner import run_all

OWN = ("reproduce", "own_studies:Own", "--scale", "smoke")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the runs of the study, done once for many tests."""
    folder = tmp_path_factory.mktemp("studies")
    assert run_all(Own().arms("smoke", 2), folder / "runs") == {}
    return folder


def test_a_study_ends_in_tables_and_figures(feddecorr: CommandLine, tmp_path: Path) -> None:
    outcome = feddecorr(*OWN, "--out", tmp_path, "--json")
    assert outcome.code == 0
    (reported,) = outcome.document["studies"]
    assert outcome.document["failures"] == []
    assert (reported["name"], reported["runs"], reported["missing"], reported["seeds"]) == ("own", 3, 0, 1)
    assert [row[0] for row in reported["tables"][0]["rows"]] == list(Own.varied)
    assert all(Path(file).is_file() for file in reported["files"])
    assert {file.name for file in tmp_path.iterdir()} == {"runs", "own", "own.md", "own.html", "plan.json"}
    assert (
        "by this command: `feddecorr reproduce own_studies:Own --scale smoke --seeds 1`"
        in (tmp_path / "own.md").read_text()
    )
    assert "own: 3 of 3 runs done" in outcome.err


def test_results_and_progress_go_separate_ways(feddecorr: CommandLine, done: Path) -> None:
    outcome = feddecorr(*OWN, "--seeds", 2, "--out", done)
    assert outcome.code == 0
    assert outcome.out.startswith("Accuracies\nwhat")
    assert outcome.out.strip().endswith(f"page: {done / 'own.html'}")
    assert "runs done" not in outcome.out
    assert "\x1b" not in outcome.out + outcome.err


def test_records_alone_give_the_same_tables(feddecorr: CommandLine, done: Path, tmp_path: Path) -> None:
    """Without any run, and without running any."""
    feddecorr(*OWN, "--seeds", 2, "--out", done)
    kept = feddecorr("records", done / "runs", "-o", tmp_path / "own.jsonl", "--json")
    assert kept.document == {
        "records": str(tmp_path / "own.jsonl"),
        "runs": 6,
        "bytes": (tmp_path / "own.jsonl").stat().st_size,
    }
    drawn = feddecorr(*OWN, "--seeds", 2, "--records", tmp_path / "own.jsonl", "--out", tmp_path / "again")
    assert drawn.code == 0
    for name in ("own.md", "own/accuracies.csv", "own/accuracy-per-round.csv"):
        assert (tmp_path / "again" / name).read_text() == (done / name).read_text()
    assert not (tmp_path / "again" / "runs").exists()


def test_what_is_not_in_the_records_is_shown_as_missing(feddecorr: CommandLine, done: Path, tmp_path: Path) -> None:
    feddecorr("records", done / "runs", "-o", tmp_path / "own.jsonl")
    lines = (tmp_path / "own.jsonl").read_text().splitlines()
    kept = [line for line in lines if json.loads(line)["experiment"]["method"]["name"] == "fedavg"]
    (tmp_path / "own.jsonl").write_text("\n".join(kept) + "\n")
    drawn = feddecorr(*OWN, "--seeds", 2, "--records", tmp_path / "own.jsonl", "--out", tmp_path / "again", "--json")
    (reported,) = drawn.document["studies"]
    assert reported["missing"] == 2
    assert [row[0] for row in reported["tables"][0]["rows"] if row[2] == "missing"] == ["method=fedprox"] * 2
    assert "of which 2 are missing" in (tmp_path / "again" / "own.md").read_text()


def test_what_records_hold_is_not_done_again(feddecorr: CommandLine, done: Path, tmp_path: Path) -> None:
    """Elsewhere, with the records alone, only the other runs are done, and the tables are those of all."""
    feddecorr(*OWN, "--seeds", 2, "--out", done)
    feddecorr("records", done / "runs", "-o", tmp_path / "own.jsonl")
    lines = (tmp_path / "own.jsonl").read_text().splitlines()
    kept = [line for line in lines if json.loads(line)["experiment"]["method"]["name"] == "fedavg"]
    (tmp_path / "own.jsonl").write_text("\n".join(kept) + "\n")
    words = (*OWN, "--seeds", 2, "--known", tmp_path / "own.jsonl", "--out", tmp_path / "again")
    assert len(feddecorr(*words, "--dry-run", "--json").document["runs"]) == 2
    assert feddecorr(*words).code == 0
    assert len(list((tmp_path / "again" / "runs").iterdir())) == 2
    assert (tmp_path / "again" / "own.md").read_text() == (done / "own.md").read_text()


def test_the_command_in_a_record_makes_its_numbers_again_to_the_last_bit(
    feddecorr: CommandLine, tmp_path: Path
) -> None:
    """Anyone can repeat one run of a study, without the study."""
    feddecorr("reproduce", "mitigation", "--scale", "smoke", "--out", tmp_path / "study")
    feddecorr("records", tmp_path / "study" / "runs", "-o", tmp_path / "study.jsonl")
    recorded = json.loads((tmp_path / "study.jsonl").read_text().splitlines()[-1])
    program, *words = shlex.split(recorded["command"])
    assert program == "feddecorr"
    assert feddecorr(*words, "--out", tmp_path / "again").code == 0
    feddecorr("records", tmp_path / "again", "-o", tmp_path / "again.jsonl")
    repeated = json.loads((tmp_path / "again.jsonl").read_text())
    for timeless in ("experiment", "spectrum", "local_models"):
        assert repeated[timeless] == recorded[timeless]
    assert [_untimed(line) for line in repeated["rounds"]] == [_untimed(line) for line in recorded["rounds"]]
    assert recorded["local_models"]


def _untimed(line: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key != "seconds"}


def test_a_run_that_fails_is_reported_at_the_end_and_the_others_are_there(
    feddecorr: CommandLine, tmp_path: Path
) -> None:
    outcome = feddecorr("reproduce", "own_studies:Broken", "--scale", "smoke", "--out", tmp_path, "--json")
    assert outcome.code == 1
    (failure,) = outcome.document["failures"]
    assert failure["reason"] == "client 1 failed in round 2: ZeroDivisionError: on purpose"
    assert failure["name"] == "method=outside:Failing, seed 0"
    (reported,) = outcome.document["studies"]
    assert [row[2] == "missing" for row in reported["tables"][0]["rows"]] == [False, True, False]
    assert "on purpose" in outcome.err
    assert "runs that failed: 1" in outcome.err


def test_all_studies_share_their_runs(feddecorr: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of one and three of the other, of which two are the same."""

    class Fixed(Broken):
        varied = ("method=fedavg", "method=fedprox", "regularizers=decov")

    monkeypatch.setattr(studies, "STUDIES", {"own": Own(), "broken": Fixed()})
    outcome = feddecorr("reproduce", "all", "--scale", "smoke", "--out", tmp_path)
    assert outcome.code == 0
    assert len(list((tmp_path / "runs").iterdir())) == 4
    assert [line.split()[:3] for line in outcome.out.splitlines()[1:]] == [["own", "3", "0"], ["broken", "3", "0"]]
    assert (tmp_path / "own.md").is_file()
    assert (tmp_path / "broken.html").is_file()


def test_the_list_says_what_there_is(feddecorr: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "STUDIES", {"own": Own()})
    (reported,) = feddecorr("reproduce", "--list", "--scale", "small", "--seeds", 2, "--json").document
    about = {"name": "own", "shows": Own.shows, "place": "nowhere", "runs": 6}
    assert reported == about | {"missing_data": [], "recorded_runs": 0, "recorded_seconds": 0}
    outcome = feddecorr("reproduce", "--list", "--scale", "small")
    assert outcome.out.splitlines()[1].split()[:3] == ["own", "nowhere", "9"]
    assert "all together: 9 runs" in outcome.err


def test_the_list_has_the_times_of_recorded_runs(
    feddecorr: CommandLine, done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feddecorr("records", done / "runs", "-o", tmp_path / "own.jsonl")
    monkeypatch.setattr(studies, "STUDIES", {"own": Own()})
    words = ("reproduce", "--list", "--scale", "smoke", "--seeds", 3, "--known", tmp_path / "own.jsonl")
    (reported,) = feddecorr(*words, "--json").document
    assert (reported["runs"], reported["recorded_runs"]) == (9, 6)
    lines = [json.loads(line) for line in (tmp_path / "own.jsonl").read_text().splitlines()]
    assert reported["recorded_seconds"] == pytest.approx(
        sum(each["seconds"] for line in lines for each in line["rounds"])
    )
    assert "6 in " in feddecorr(*words).out


def test_data_that_are_not_here_are_named_with_the_command_that_fetches_them(
    feddecorr: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is run; where no run is left, nothing is."""
    monkeypatch.setenv("FEDDECORR_DATA", str(tmp_path / "empty"))
    listed = feddecorr("reproduce", "collapse-data", "--list", "--scale", "paper", "--json")
    assert listed.document[0]["missing_data"] == ["cifar10", "tinyimagenet"]
    for option in ("--list", "--dry-run"):
        said = feddecorr("reproduce", "collapse-data", option, "--scale", "paper").err
        assert "'feddecorr data get tinyimagenet'" in said
    refused = feddecorr("reproduce", "collapse-data", "--scale", "paper", "--out", tmp_path / "out")
    assert refused.code == 2
    assert "'feddecorr data get cifar10'" in refused.err
    assert not (tmp_path / "out").exists()


def test_settings_behind_a_study_are_those_of_all_its_runs(feddecorr: CommandLine, tmp_path: Path) -> None:
    words = (*OWN[:2], "training.lr=0.002", "engine=pool", *OWN[2:], "--out", tmp_path)
    planned = [shlex.split(run["command"]) for run in feddecorr(*words, "--dry-run", "--json").document["runs"]]
    assert all({"training.lr=0.002", "engine=pool"} <= set(command) for command in planned)
    assert feddecorr(*words).code == 0
    done = [RunDirectory.open(path).settings() for path in (tmp_path / "runs").iterdir()]
    assert len(done) == len(Own.varied)
    assert all(experiment.training.lr == 0.002 and isinstance(options.engine, Pool) for experiment, options in done)
    made = (tmp_path / "own.md").read_text()
    assert "`feddecorr reproduce own_studies:Own training.lr=0.002 engine=pool --scale smoke --seeds 1`" in made
    assert feddecorr("reproduce", "own_studies:Own", "training.lrr=1", "--dry-run").code == 2


def test_a_dry_run_lists_the_runs_and_does_nothing(feddecorr: CommandLine, done: Path, tmp_path: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in done.rglob("*")}
    document = feddecorr(*OWN, "--seeds", 3, "--out", done, "--dry-run", "--json").document
    assert [run["finished"] for run in document["runs"]] == [3] * 6 + [0] * 3
    assert [run["images_left"] for run in document["runs"]] == [0] * 6 + [3 * 240] * 3  # two epochs of 120
    assert all(run["command"].startswith("feddecorr run data=synthetic") for run in document["runs"])
    outcome = feddecorr(*OWN, "--seeds", 3, "--out", done, "--dry-run")
    assert "9 runs, 6 done" in outcome.out
    assert {file: file.stat().st_mtime_ns for file in done.rglob("*")} == before
    assert feddecorr(*OWN, "--out", tmp_path / "new", "--dry-run").code == 0
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["reproduce"], "feddecorr reproduce --list"),
        (["reproduce", "owm"], "unknown study 'owm'"),
        (["reproduce", "own_studies:Own", "--scale", "smal"], "did you mean 'small'?"),
        (["reproduce", "own_studies:Nothing"], "cannot be imported"),
        (["reproduce", "own_studies:NOT_A_STUDY"], "is not a"),
        (["reproduce", "own_studies:Own", "--records", "nowhere.jsonl"], "there is no file or directory nowhere.jsonl"),
    ],
)
def test_what_the_user_must_change_is_named(feddecorr: CommandLine, words: list[str], says: str) -> None:
    refused = feddecorr(*words)
    assert refused.code == 2
    assert says in refused.err
    assert refused.out == ""


def test_an_interrupt_keeps_what_is_done_and_says_so(
    feddecorr: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner.Local, "run", interrupted)
    outcome = feddecorr(*OWN, "--out", tmp_path)
    assert outcome.code == 130
    assert "the same command continues" in outcome.err
    assert outcome.out == ""


def test_help_loads_nothing_heavy() -> None:
    script = "import sys, feddecorr.paper.commands; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "feddecorr.paper.commands.reproduce" in done.stdout.split()
    assert not {"torch", "numpy", "scipy", "plotly", "rich.progress"} & set(done.stdout.split())
