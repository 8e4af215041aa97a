"""What a stranger's file names is not run: not by looking, not by going on, and never from the working directory."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine
from small import SETTINGS, result, simulate, small, write_settings

from feddecorr.config.experiment import REGISTRIES, Experiment
from feddecorr.config.training import CHOICES
from feddecorr.core.trust import VARIABLE, Trust
from feddecorr.errors import UserError
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import resume, run
from feddecorr.server.federation import Simulation
from feddecorr.settings.flat import command
from feddecorr.training.task import Task

pytestmark = pytest.mark.usefixtures("plain_look")

HOSTILE = """
from pathlib import Path
Path(__file__).with_name("executed").touch()
import outside

build = outside.Tied


class Failing(outside.Failing):
    "Fails as the other does."
"""

NAMED: list[dict[str, Any]] = [
    {"model": {"name": "custom", "source": "MODULE:build"}},
    {"model": {"name": "MODULE:build", "options": {"args": ["touch", "executed"]}}},
    {"method": {"name": "MODULE:Failing"}},
    {"data": {"name": "MODULE:build"}},
    {"partition": {"name": "flower", "options": {"alpha": "MODULE:build"}}},
    {"engine": {"name": "MODULE:build"}},
    {"regularizers": {"MODULE:build": {}}},
    {"transforms": {"clip": {"name": "MODULE:build"}}},
    {"training": {"schedule": {"name": "MODULE:build"}}},
    {"training": {"optimizer": {"name": "MODULE:build"}}},
    {"training": {"adapter": {"name": "MODULE:build"}}},
    {"evaluation": {"measures": {"MODULE:build": {}}}},
]
"""All places of an experiment that can name code."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a working directory with a hostile module of a name of its own, found under `place.name`."""
    folder = tmp_path / f"hostile_{abs(hash(tmp_path))}"
    folder.mkdir()
    (folder / f"{folder.name}.py").write_text(HOSTILE)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.delenv(VARIABLE, raising=False)
    yield folder
    sys.modules.pop(folder.name, None)


def was_executed(place: Path) -> bool:
    return (place / "executed").exists()


def spoil(place: Path, named: dict[str, Any]) -> Path:
    """Make a run whose file names the module in that place."""
    out = place / "run"
    list(run(*small("rounds=1"), out))
    file = out / "experiment.json"
    stored = json.loads(file.read_text()) | json.loads(json.dumps(named).replace("MODULE", place.name))
    file.write_text(json.dumps({**stored, "rounds": 2}))
    return out


def test_every_family_is_tried() -> None:
    tops = {setting for named in NAMED for setting in named}
    inner = {f"{top}.{setting}" for named in NAMED for top, table in named.items() for setting in table}
    assert set(REGISTRIES) <= tops
    assert set(CHOICES) <= inner


@pytest.mark.parametrize("named", NAMED, ids=str)
def test_looking_imports_nothing_and_going_on_is_refused(
    place: Path, feddecorr: CommandLine, named: dict[str, Any]
) -> None:
    """Neither in the run's directory nor in the file that was made of it."""
    out = spoil(place, named)
    for words in (
        ["show", out],
        ["show", out, "--json"],
        ["report", out],
        ["records", out, "-o", "r.jsonl"],
        ["table", out],
        ["table", "r.jsonl"],
        ["export", "r.jsonl", "-o", "r.csv"],
    ):
        assert feddecorr(*words).code == 0
    assert "no two are finished" in feddecorr("compare", "r.jsonl").err
    for words in (
        ["resume", out],
        ["diagnose", out],
        ["run", out / "experiment.json"],
        ["partition", out / "experiment.json"],
        ["export", out, "--to", "safetensors", "-o", "model.safetensors"],
        ["sweep", out / "experiment.json", "--over", "training.lr=0.1,0.2", "--dry-run"],
    ):
        refused = feddecorr(*words)
        assert refused.code == 2
        assert f"{place.name}:" in refused.err
        assert f"--trust (in Python, trust=True), or with {VARIABLE}={place.name}" in refused.err
    with pytest.raises(UserError, match="trust=True"):
        resume(out)
    assert not was_executed(place)


def test_what_was_only_looked_at_cannot_be_used(place: Path) -> None:
    seen = RunDirectory.open(spoil(place, {"method": {"name": "MODULE:Failing"}})).settings()
    assert seen[0].to_dict()["method"] == {"name": f"{place.name}:Failing"}
    assert f"method={place.name}:Failing" in command(*seen)
    with pytest.raises(UserError, match="only looked at"):
        seen[0].method.terms(None)  # type: ignore[arg-type]  # it is never looked at
    with pytest.raises(UserError, match="only looked at"):
        Simulation(seen[0]).federation.start()
    assert not was_executed(place)


def test_trust_does_not_reach_into_the_working_directory(
    place: Path, feddecorr: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger may have put a module there; whoever wants it says its name, or sets PYTHONPATH."""
    out = spoil(place, NAMED[0])
    for words in (["resume", out, "--trust"], ["diagnose", out, "--trust"]):
        refused = feddecorr(*words)
        assert refused.code == 2
        assert "not looked up in the working directory" in refused.err
    monkeypatch.setenv(VARIABLE, f"other,{place.name}")
    assert "not looked up in the working directory" in feddecorr("resume", out).err
    assert not was_executed(place)


@pytest.mark.parametrize("way", ["said", "trusted", "allowed"])
def test_the_users_code_is_run_when_it_is_named_or_trusted(
    place: Path, feddecorr: CommandLine, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    name = f"{place.name}:Failing"
    settings = write_settings(place / "small.json")
    words = [f"method={name}", "method.round=9", "rounds=1"]
    assert feddecorr("run", settings, *words, "--out", "runs/a").code == 0
    assert was_executed(place)
    if way == "said":
        assert feddecorr("resume", "runs/a", "rounds=2", f"method={name}").code == 0
        return
    sys.path.append(str(place))  # as PYTHONPATH would
    if way == "allowed":
        monkeypatch.setenv(VARIABLE, place.name)
    assert feddecorr("resume", "runs/a", "rounds=2", *(["--trust"] if way == "trusted" else [])).code == 0
    trusting = ["--trust"] if way == "trusted" else []
    assert feddecorr("diagnose", "runs/a", *trusting).code == 0
    assert feddecorr("export", "runs/a", "--to", "safetensors", "-o", "model.safetensors", *trusting).code == 0


def test_processes_find_the_users_module_and_this_one_s_search_path_is_left_alone(place: Path) -> None:
    before, finders = sys.path.copy(), sys.meta_path.copy()
    words = [f"method={place.name}:Failing", "method.round=9", "rounds=1"]
    alone = result(run(*small(*words)))
    assert was_executed(place)
    assert result(run(*small(*words, "engine=pool", "engine.workers=1"))) == alone
    assert (sys.path, sys.meta_path) == (before, finders)


def test_an_allowed_package_is_that_package_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "mine,")
    allowed = {name: Trust().allows(name) for name in ("mine:a", "mine.sub:a", "mine_not:a", "other:a", "os:system")}
    assert allowed == {"mine:a": True, "mine.sub:a": True, "mine_not:a": False, "other:a": False, "os:system": False}


def test_a_task_from_elsewhere_names_code_only_for_who_trusts_its_sender() -> None:
    document = simulate("method=outside:Failing").task.to_dict()
    with pytest.raises(UserError, match="outside:Failing"):
        Task.from_dict(document)
    assert Task.from_dict(document, trust=True).experiment == small("method=outside:Failing").experiment


def test_a_run_with_the_users_kind_needs_no_trust_where_the_experiment_is_given(tmp_path: Path) -> None:
    experiment, options = small("method=outside:Failing", "method.round=9", "rounds=2")
    list(run(*small("method=outside:Failing", "method.round=9", "rounds=1"), tmp_path / "run"))
    rest = result(resume(tmp_path / "run", experiment, options))
    assert rest == result(run(experiment, options))[1:]


def test_the_working_directory_is_no_place_to_import_from(tmp_path: Path) -> None:
    """Neither for the command, started as a module, nor for the processes that it starts."""
    for name in ("typer", "torch", "filelock", "socket"):
        (tmp_path / f"{name}.py").write_text("open('executed', 'w')\nraise SystemExit(99)\n")
    (tmp_path / "small.json").write_text(json.dumps({**SETTINGS, "rounds": 1}))
    words = ["run", "small.json", "engine=pool", "engine.workers=1", "--out", "run"]
    done = subprocess.run(
        [sys.executable, "-m", "feddecorr", *words],
        cwd=tmp_path,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "executed").exists()


def test_settings_of_a_stranger_are_still_checked() -> None:
    with pytest.raises(UserError, match="rounds"):
        Experiment.parse({"model": "os:system", "rounds": "many"}, Trust(closed=True))
