import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import ROOT
from safetensors.torch import load_file
from small import digest, result, small, without_time, write_settings

from feddecorr.errors import RunError, UserError
from feddecorr.runs import writer
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import ensure, resume, run

WORDS = ["method=outside:Remembering", "regularizers=feddecorr", "participation=0.75", "batchnorm=local"]


class PowerCutError(Exception):
    """Stands for the moment in which the process is gone."""


@pytest.fixture(scope="module")
def expected() -> list[Any]:
    """Return what a run that is never interrupted gives."""
    return result(run(*small(*WORDS)))


def on_disk(out: Path) -> list[Any]:
    """Return what the directory holds of a finished run, in the form of `result`, models of the last round only."""
    rounds = RunDirectory.open(out).rounds()
    return [*(without_time(record.to_dict()) for record in rounds), digest(load_file(out / "weights.safetensors"))]


def test_a_run_on_disk_is_the_run_in_memory(tmp_path: Path, expected: list[Any]) -> None:
    out = tmp_path / "run"
    assert result(run(*small(*WORDS), out)) == expected
    assert on_disk(out) == [*(record for record, _ in expected), expected[-1][1]]


@pytest.mark.parametrize("when", range(1, 17))
def test_a_run_cut_off_at_any_write_goes_on_to_the_same_bits(
    tmp_path: Path, expected: list[Any], monkeypatch: pytest.MonkeyPatch, when: int
) -> None:
    """Every file comes into being by a rename; the process is gone right before the n-th of them."""
    out = tmp_path / "run"
    writes = iter(range(1, 1000))
    rename = os.replace

    def cut(source: str, target: str, **folders: int) -> None:
        if next(writes) == when:
            raise PowerCutError
        rename(source, target, **folders)

    monkeypatch.setattr(os, "replace", cut)
    with pytest.raises((PowerCutError, RunError)):
        list(run(*small(*WORDS), out))
    monkeypatch.undo()
    if not (out / "experiment.json").exists():  # cut off before there was a run at all
        assert when == 1
        list(run(*small(*WORDS), out))
    list(resume(out, trust=True))
    assert on_disk(out) == [*(record for record, _ in expected), expected[-1][1]]


@pytest.mark.parametrize("engine", ["serial", "pool"])
def test_a_killed_run_goes_on_to_the_same_bits(tmp_path: Path, engine: str) -> None:
    """The process is really killed, by SIGKILL, in the middle of its work."""
    settings = write_settings(tmp_path / "small.json")
    out = tmp_path / "run"
    words = ["rounds=4", "training.epochs=10", f"engine={engine}"]
    command = [sys.executable, "-m", "feddecorr", "run", str(settings), *words, "--out", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    lines = out / "rounds.jsonl"
    while process.poll() is None and not (lines.exists() and lines.read_bytes().count(b"\n") >= 1):
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert RunDirectory.open(out).finished_rounds() < 4
    list(resume(out, trust=True))
    straight = result(run(*small("rounds=4", "training.epochs=10")))
    assert on_disk(out) == [*(record for record, _ in straight), straight[-1][1]]


def test_a_torn_last_line_is_no_round(tmp_path: Path, expected: list[Any]) -> None:
    out = tmp_path / "run"
    records = run(*small(*WORDS), out)
    next(records)
    records.close()
    with (out / "rounds.jsonl").open("a") as lines:
        lines.write('{"round": 2, "accu')
    assert len(RunDirectory.open(out).rounds()) == 1
    list(resume(out, trust=True))
    assert on_disk(out) == [*(record for record, _ in expected), expected[-1][1]]


def test_a_run_can_be_made_longer_by_another_engine(tmp_path: Path, expected: list[Any]) -> None:
    out = tmp_path / "run"
    list(run(*small(*WORDS, "rounds=1"), out))
    list(resume(out, *small(*WORDS, "engine=pool")))
    assert on_disk(out) == [*(record for record, _ in expected), expected[-1][1]]


def test_nothing_else_can_be_changed_on_the_way(tmp_path: Path) -> None:
    list(run(*small("rounds=2"), tmp_path / "run"))
    with pytest.raises(UserError, match=r"seed: 0 there, 1 here.*only its run options can change \(rounds, engine"):
        resume(tmp_path / "run", *small("seed=1"))
    with pytest.raises(UserError, match="2 rounds are done"):
        resume(tmp_path / "run", *small("rounds=1"))


def test_a_finished_run_has_nothing_left_to_do(tmp_path: Path) -> None:
    list(run(*small("rounds=1"), tmp_path / "run"))
    assert list(resume(tmp_path / "run")) == []


def test_another_run_is_never_written_over(tmp_path: Path) -> None:
    list(run(*small("rounds=1"), tmp_path / "run"))
    with pytest.raises(UserError, match="feddecorr resume"):
        run(*small("rounds=1"), tmp_path / "run")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    with pytest.raises(UserError, match="not empty"):
        run(*small("rounds=1"), tmp_path / "other")


def test_two_processes_cannot_write_the_same_run(tmp_path: Path) -> None:
    def first() -> Iterator[object]:
        return run(*small(), tmp_path / "run")

    records = first()
    next(records)
    with pytest.raises(UserError, match="another process"):
        next(resume(tmp_path / "run"))


def test_all_kinds_of_processors_that_worked_on_a_run_are_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each once, in their order; what a stranger wrote in their place stops nobody."""
    out = tmp_path / "run"
    for rounds, kind in enumerate(["here", "there", "there", "here"], start=1):
        monkeypatch.setattr(writer, "kind_of_processor", lambda kind=kind: kind)
        list(ensure(*small(f"rounds={rounds}"), out))
    noted = RunDirectory.open(out).environment() or {}
    assert noted["processors"] == ["here", "there"]
    (out / "environment.json").write_text(json.dumps({**noted, "processors": 3}))
    list(ensure(*small("rounds=5"), out))
    assert (RunDirectory.open(out).environment() or {}) == {**noted, "processors": ["here"]}


def test_the_directory_holds_what_it_promises(tmp_path: Path) -> None:
    out = tmp_path / "run"
    list(run(*small("rounds=1"), out))
    line = json.loads((out / "rounds.jsonl").read_text())
    assert line.keys() == {
        "round", "clients", "terms", "seconds", "missing", "notes", "model", "local_models", "averaging", "local_terms",
        "updates", "sent", "received", "flops", "adapters",
    }  # fmt: skip
    assert 0 <= line["model"]["accuracy"] <= 1
    environment = json.loads((out / "environment.json").read_text())
    assert {"python", "torch", "numpy", "feddecorr"} <= environment["versions"].keys()
    federation = json.loads((out / "federation.json").read_text())
    assert federation.keys() == {"note", "classes", "clients", "data", "split"}
    assert RunDirectory.open(out).roster().sizes.sum() == 120
    assert not list(out.rglob("*.pt")) + list(out.rglob("*.pkl"))
    _, _, page = (ROOT / "docs" / "README.md").read_text().partition("## What a run's directory holds")
    files = [path.name for path in out.iterdir() if path.is_file() and not path.name.startswith(".")]
    assert [name for name in [*files, *line, *federation] if f"`{name}`" not in page] == []


def test_memories_do_not_pile_up(tmp_path: Path) -> None:
    """What clients remember is kept once for each client, not once for each round."""
    out = tmp_path / "run"
    list(run(*small(*WORDS, "rounds=5"), out))
    assert all(len(list(client.iterdir())) == 1 for client in (out / "clients").iterdir())
