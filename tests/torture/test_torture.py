"""Short forms of what `make torture` does for hours."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.torture.broken_inputs import failed, torture_all
from benchmarks.torture.readers import READERS
from pages import ROOT
from small import digest, result, small

from feddecorr.errors import RunError, UserError
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import ensure, run

SLOW = {"runs": 6, "resumed runs": 20}


@pytest.mark.parametrize("name", sorted(READERS))
@pytest.mark.filterwarnings("ignore")
def test_broken_input_is_refused_in_words(name: str) -> None:
    """No other exception, nothing executed, nothing outside of the folder, and quickly."""
    (row,) = torture_all([name], SLOW.get(name, 60), seed=1).values()
    assert not failed(row), row


def start(module: str, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", f"benchmarks.torture.{module}", *words]
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)


@pytest.mark.skipif(not sys.platform.startswith("linux") or shutil.which("cc") is None, reason="needs a C compiler")
def test_a_run_that_is_killed_at_a_write_goes_on_to_the_same_bits() -> None:
    """Every 47th of the system calls that write; the long form takes them all."""
    done = start("every_write", "--step", "47", "--methods", "scaffold")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all with the bits of the undisturbed run" in done.stdout


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")
def test_a_limit_of_file_sizes_ends_a_run_with_what_helps() -> None:
    done = start("limits", "--limits", "file size")
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_message_of_a_client_ends_a_run() -> None:
    """Sixty on each road, of the ten thousand that the long form changes."""
    done = start("messages", "--count", "60", "--seed", "1")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_removed_directory_ends_the_run_and_is_not_made_again(tmp_path: Path) -> None:
    records = run(*small(), tmp_path / "run")
    next(records)
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(RunError, match="was removed or replaced during the run"):
        next(records)
    assert not (tmp_path / "run").exists()


def test_a_directory_that_was_replaced_is_left_to_its_new_owner(tmp_path: Path) -> None:
    old = run(*small(), tmp_path / "run")
    next(old)
    shutil.rmtree(tmp_path / "run")
    new = run(*small("seed=1"), tmp_path / "run")
    next(new)
    with pytest.raises(RunError, match="was removed or replaced"):
        next(old)
    assert [record.round for record in new] == [2, 3]
    assert digest(RunDirectory.open(tmp_path / "run").rounds()[0].state) == digest({})


def test_a_copy_of_a_running_run_is_whole_or_refused(tmp_path: Path) -> None:
    """File by file, at any moment between two of them."""
    experiment, options = small("method=scaffold", "rounds=4")
    expected = result(run(experiment, options))
    records = run(experiment, options, tmp_path / "run")
    next(records)
    for first in ("rounds.jsonl", "weights.safetensors", "server", "clients"):
        copy = tmp_path / f"copy-{first}"
        source = tmp_path / "run"
        copy.mkdir()
        _copy(source / first, copy / first)
        next(records, None)
        for file in source.iterdir():
            if file.name != first:
                _copy(file, copy / file.name)
        try:
            rest = result(ensure(experiment, options, copy))
        except UserError:
            continue
        assert rest == expected[len(expected) - len(rest) :]
        assert digest(dict(RunDirectory.open(copy).rounds()[-1].state)) == digest({})


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copy(source, target)
