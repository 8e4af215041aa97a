"""Sweeps on Slurm: a job array does the runs of a local sweep; on a real Slurm where it is installed."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from command_line import CommandLine
from one_node_slurm import ask, is_installed, slurm
from own_studies import outcome
from small import SETTINGS

from feddecorr.sweeps.on_slurm import command_of_tasks

ASKED = ["--time", "1:00:00", "--gres", "gpu:1", "--partition", "short", "--account=me", "--memory", "2G"]

STAND_IN = """#!{python}
import re, subprocess, sys, os
script = open(sys.argv[-1]).read()
numbers = re.search("--array=(.*)", script)[1].replace("-", ",").split(",")
first, last = int(numbers[0]), int(numbers[-1])
print("7;stand-in", flush=True)
if not os.fork():
    os.setsid()
    for stream in (0, 1, 2):
        os.close(stream)
    for number in range(first, last + 1):
        killed = subprocess.Popen(["sh", sys.argv[-1]], env={{**os.environ, "SLURM_ARRAY_TASK_ID": str(number)}})
        killed.wait()
    open("over", "w").close()
"""
"""An sbatch that does the tasks of an array one after another."""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    Path("mine.json").write_text(json.dumps({**SETTINGS, "rounds": 6}))
    return Path("mine.json")


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put an sbatch and an squeue before all others."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "sbatch").write_text(STAND_IN.format(python=sys.executable))
    (programs / "squeue").write_text("#!/bin/sh\ntest -e over || echo 7_1\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.usefixtures("stand_in")
def test_the_script_says_what_was_asked_for(feddecorr: CommandLine, file: Path) -> None:
    words = ["sweep", file, "training.threads=2", "--over", "clients=2,3,4", "--on", "slurm", *ASKED, "--dry-run"]
    script = feddecorr(*words).out
    assert "--time=1:00:00\n" in script
    for line in ("gres=gpu:1", "partition=short", "account=me", "mem=2048M", "cpus-per-task=2", "requeue"):
        assert f"#SBATCH --{line}\n" in script
    task = script.splitlines()[-1]
    assert re.search(r"-m feddecorr sweep mine.json .*--jobs=2 --shard \$SLURM_ARRAY_TASK_ID/3$", task)
    assert not re.search(r"--(on|time|gres|partition|account|memory|dry-run)\b", task)
    assert feddecorr(*words, "--json").document == {"script": script}
    assert not Path("sweeps").exists()


@pytest.mark.usefixtures("stand_in")
def test_an_array_does_the_runs_of_a_local_sweep(feddecorr: CommandLine, file: Path) -> None:
    """By a stand-in for sbatch, which does its tasks one after another; done runs are not submitted again."""
    words = ["sweep", file, "rounds=1", "--over", "method=fedavg,fedprox", "--seeds", "2"]
    done = feddecorr(*words, "--on", "slurm", "--tasks", "2", "--out", "slurm")
    assert done.code == 0
    assert feddecorr(*words, "--out", "local").out.replace("local", "slurm") == done.out
    assert outcome(Path("slurm/runs")) == outcome(Path("local/runs"))
    Path("slurm/slurm/array.sh").unlink()
    assert feddecorr(*words, "--on", "slurm", "--out", "slurm").out == done.out
    assert not Path("slurm/slurm/array.sh").exists()


@pytest.mark.usefixtures("stand_in")
def test_a_run_that_failed_is_named_with_its_logs(feddecorr: CommandLine, file: Path) -> None:
    failed = feddecorr(
        "sweep", file, "rounds=2", "--over", "method=fedavg,outside:Failing", "--on", "slurm", "--out", "slurm"
    )
    assert failed.code == 1
    assert "ended without it: see slurm/slurm" in failed.err
    assert sorted(len(rounds) for rounds, _ in outcome(Path("slurm/runs")).values()) == [1, 2]


def test_words_for_the_array_are_not_for_its_tasks() -> None:
    words = [
        "sweep",
        "a.toml",
        "--on=slurm",
        "--time",
        "1",
        "--over",
        "x=1",
        "--tasks",
        "3",
        "--seeds=2",
        "--dry-run",
        "--json",
    ]
    assert command_of_tasks(words)[3:] == ("sweep", "a.toml", "--over", "x=1", "--seeds=2")


@pytest.fixture
def real() -> Iterator[None]:
    """Start a Slurm."""
    with slurm():
        yield


def kill_one(out: Path, killed: list[int]) -> None:
    """Requeue the task that is the first to have done a round, as a node does that is taken away."""
    while not (found := list(out.glob("runs/*/weights.safetensors"))):
        time.sleep(0.05)
    running = ask("squeue", "--noheader", "--states=running", "--format=%A").split()
    ask("scontrol", "requeue", running[0])
    killed.append(len(found))


if is_installed():

    @pytest.mark.usefixtures("real")
    def test_an_array_of_eight_on_slurm_with_a_task_that_is_requeued(feddecorr: CommandLine, file: Path) -> None:
        words = ["sweep", file, "rounds=20", "--over", "method=fedavg,fedprox", "--seeds", "4"]
        killed: list[int] = []
        thread = threading.Thread(target=kill_one, args=(Path("slurm"), killed))
        thread.start()
        done = feddecorr(*words, "--on", "slurm", "--out", "slurm")
        thread.join()
        assert killed
        assert done.code == 0
        assert feddecorr(*words, "--out", "local").out.replace("local", "slurm") == done.out
        assert outcome(Path("slurm/runs")) == outcome(Path("local/runs"))
        assert not [each for each in psutil.process_iter() if "--shard" in " ".join(each.cmdline() or [])]
