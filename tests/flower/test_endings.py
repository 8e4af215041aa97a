"""However a run on Flower ends, by the command line, nothing of it is left: no process, no temporary file."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from families import Start, check_nothing_left, starting
from pages import ROOT, Page
from small import digest, small, write_settings

from feddecorr.core.files import load_tensors
from feddecorr.flower.engine import SIMULATION_APP
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import run
from feddecorr.settings.flat import to_settings


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return what starts commands, which are ended at last."""
    with starting(tmp_path) as start_one:
        yield start_one


def test_a_run_that_fails_and_one_that_is_interrupted(tmp_path: Path, start: Start) -> None:
    """It exits with 1 and the client's own traceback; interrupted, with 130; and goes on to the bits of serial."""
    out = tmp_path / "run"
    settings = write_settings(tmp_path / "settings.json")
    words = ["engine=flower", "engine.workers=1", "method=outside:Failing", "method.round=2", "rounds=4"]
    failing = start("run", settings, *words, "--out", out)
    failing.wait_for(lambda: {"raylet", "gcs_server"} <= set(failing.family().values()))
    seen = failing.family()
    assert failing.process.wait() == 1
    reported = failing.errors.read_text()
    assert "client 1 failed in round 2: ZeroDivisionError: on purpose" in reported
    assert 'raise ZeroDivisionError("on purpose")' in reported
    check_nothing_left(failing, set(seen))

    repaired = small("method=outside:Failing", "method.round=1000", "rounds=1000", *words[:2])
    (out / "experiment.json").write_text(json.dumps(to_settings(*repaired)))
    interrupted = start("resume", out, "--trust")
    interrupted.wait_for(lambda: RunDirectory(out).finished_rounds() > 2)
    seen = interrupted.family()
    interrupted.process.send_signal(signal.SIGINT)
    assert interrupted.process.wait() == 130
    check_nothing_left(interrupted, set(seen))

    found = RunDirectory.open(out)
    expected = list(run(*small("method=outside:Failing", "method.round=1000", f"rounds={found.finished_rounds()}")))
    assert [record.terms for record in found.rounds()] == [record.terms for record in expected]
    assert digest(load_tensors(out / "weights.safetensors")) == digest(expected[-1].state)


def test_a_run_that_is_killed(tmp_path: Path, start: Start) -> None:
    """By SIGKILL, which it cannot answer, while Flower starts."""
    settings = write_settings(tmp_path / "settings.json")
    killed = start("run", settings, "engine=flower", "--out", tmp_path / "run")
    killed.wait_for(lambda: "gcs_server" in killed.family().values())
    seen = killed.family()
    killed.process.kill()
    killed.process.wait()
    check_nothing_left(killed, set(seen))


def test_a_run_whose_flower_is_killed(tmp_path: Path, start: Start) -> None:
    """It says so, with what Flower itself had to say, and keeps what is done. The command is the documented one."""
    settings = write_settings(tmp_path / "settings.json")
    out = tmp_path / "run"
    page = Page.read(ROOT / "docs" / "deployment.md")
    (documented,) = (command.words[2:-2] for command in page.commands if "engine=flower" in command.words)
    orphaned = start("run", settings, *documented, "engine.workers=1", "rounds=1000", "--out", out)
    orphaned.wait_for(lambda: RunDirectory(out).finished_rounds() > 0)
    seen = orphaned.family()
    (relay,) = (pid for pid in seen if psutil.Process(pid).cmdline()[2:4] == ["-m", SIMULATION_APP])
    psutil.Process(relay).kill()
    assert orphaned.process.wait() == 1
    reported = orphaned.errors.read_text()
    assert "Flower's simulation ended before the run did" in reported
    assert "Flower's log ends with:\n" in reported
    assert f"'feddecorr resume {out}' continues" in reported
    check_nothing_left(orphaned, set(seen))
