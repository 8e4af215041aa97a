"""Start a run, continue it, or skip it: what decides that it is the same run, and what does not."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from small import Small, digest, result, small

import feddecorr
from feddecorr.errors import UserError
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import ensure, resume, run
from feddecorr.settings.options import RunOptions


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below the folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def arrays(path: Path, seed: int = 0, count: int = 60) -> Path:
    """Write a user's own data."""
    stream = np.random.default_rng(seed)
    np.savez(path, x=stream.integers(0, 256, (count, 8, 8), dtype=np.uint8), y=np.arange(count) % 3)
    return path


def own(data: str, *words: str) -> Small:
    """Return a small experiment on them."""
    return small(f"data={data}", "clients=2", "partition.minimum=2", "rounds=2", *words)


def test_a_run_is_made_gone_on_with_and_found_done(tmp_path: Path) -> None:
    out = tmp_path / "run"
    expected = result(run(*small()))
    records = feddecorr.ensure(*small(), out)
    first = result([next(records)])
    records.close()
    assert first + result(ensure(*small(), out)) == expected
    before = contents(out)
    assert list(ensure(*small(), out)) == []
    assert list(ensure(*small("rounds=2"), out)) == []
    assert contents(out) == before


def test_more_rounds_are_the_same_run(tmp_path: Path) -> None:
    out = tmp_path / "run"
    begun = result(ensure(*small("rounds=2", "evaluation.every=2"), out))
    assert begun[1:] + result(ensure(*small("rounds=4", "engine=pool"), out)) == result(run(*small("rounds=4")))[1:]
    assert RunDirectory.open(out).settings()[1].rounds == 4


def test_another_run_is_refused_by_the_settings_that_differ(tmp_path: Path) -> None:
    list(ensure(*small("rounds=1"), tmp_path / "run"))
    before = contents(tmp_path / "run")
    with pytest.raises(
        UserError, match=r"partition\.alpha: 0\.3 there, 0\.5 here, training\.lr: 0\.05 there, 0\.1 here"
    ):
        list(ensure(*small("partition.alpha=0.5", "training.lr=0.1"), tmp_path / "run"))
    assert contents(tmp_path / "run") == before


@pytest.mark.parametrize(
    ("word", "same"),
    [
        ("rounds=40", True),
        ("engine=pool", True),
        ("evaluation.every=7", True),
        ("seed=1", False),
        ("training.threads=2", False),
        ("method=fedprox", False),
        ("regularizers=feddecorr", False),
        ("evaluation.clients=true", True),
        ("missing=continue", False),
        ("transforms=clip", False),
    ],
)
def test_the_digest_is_of_what_decides_the_results(word: str, same: bool) -> None:
    assert (small(word).experiment.digest() == small().experiment.digest()) is same
    assert len(small().experiment.digest()) == 32


def test_the_digest_does_not_depend_on_the_process() -> None:
    code = "from small import Small, small; print(small('method=moon').experiment.digest())"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment["PYTHONHASHSEED"] = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"  # not as here
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()
    assert found == small("method=moon").experiment.digest()


def test_own_data_are_known_by_their_content_wherever_they_lie(tmp_path: Path) -> None:
    """The same arrays elsewhere are the same run; other arrays at the same place are refused, and nothing changes."""
    one, other = arrays(tmp_path / "one.npz"), tmp_path / "elsewhere.npz"
    shutil.copy(one, other)
    assert own(f"npz:{one}").experiment.pinned().digest() == own(f"npz:{other}").experiment.pinned().digest()
    out = tmp_path / "run"
    records = run(*own(f"npz:{one}"), out)
    next(records)
    records.close()
    arrays(one, seed=1)
    before = contents(out)
    with pytest.raises(UserError, match="has changed: its pixels and labels have sha256"):
        list(resume(out))
    with pytest.raises(UserError, match=r"data\.sha256"):
        list(ensure(*own(f"npz:{one}"), out))
    assert contents(out) == before
    assert len(list(ensure(*own(f"npz:{other}"), out))) == 1


def test_a_relative_path_works_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of data and of a split."""
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    arrays(Path("mine.npz"))
    Path("split.json").write_text(json.dumps([list(range(20)), list(range(20, 48))]))
    words = ["partition=file", "partition.path=split.json"]
    records = run(*own("npz:mine.npz", *words), tmp_path / "run")
    next(records)
    records.close()
    monkeypatch.chdir(tmp_path / "there")
    assert len(list(resume(tmp_path / "run"))) == 1


def test_a_split_that_became_another_is_refused(tmp_path: Path) -> None:
    """Whatever made it so: what the run began with is written down."""
    list(run(*small("rounds=1"), tmp_path / "run"))
    file = tmp_path / "run" / "federation.json"
    about = json.loads(file.read_text())
    file.write_text(json.dumps({**about, "split": "0" * 64}))
    with pytest.raises(UserError, match="begun on another split"):
        list(resume(tmp_path / "run", *small("rounds=2")))


def test_a_refused_command_changes_nothing(tmp_path: Path) -> None:
    """Neither while another process has the run, nor when its data are gone."""
    one = arrays(tmp_path / "one.npz")
    out = tmp_path / "run"
    records = run(*own(f"npz:{one}"), out)
    next(records)
    before = contents(out)
    with pytest.raises(UserError, match="being written by another process"):
        list(resume(out, options=RunOptions(rounds=16)))
    assert contents(out) == before
    records.close()
    one.unlink()
    before = contents(out)
    with pytest.raises(UserError, match=r"one\.npz"):
        list(resume(out, options=RunOptions(rounds=16)))
    assert contents(out) == before


def test_a_run_without_a_directory_is_the_run_with_one(tmp_path: Path) -> None:
    words = ["method=scaffold", "batchnorm=local", "evaluation.clients=true"]
    assert result(run(*small(*words))) == result(run(*small(*words), tmp_path / "run"))


def test_nothing_is_left_of_a_run_without_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    *_, last = run(*small("method=moon"))
    assert digest(last.state)
    assert list(tmp_path.iterdir()) == []
