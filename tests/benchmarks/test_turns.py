"""Contestants take turns, wherever the benchmark was started."""

from pathlib import Path

import pytest
from benchmarks.speed import MODEL
from benchmarks.turns import Contestant, contest

TINY = [
    "data=synthetic", "data.train=24", "data.test=10", "data.size=8", "clients=2", "partition=homogeneous",
    "partition.minimum=2", *MODEL, "model.widths=[4,8]", "training.epochs=1", "rounds=3",
]  # fmt: skip


def test_all_processes_of_a_contestant_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their work is added up; the first turn, which is to warm up, is not told of."""
    monkeypatch.chdir(tmp_path)
    found = contest({"two": Contestant("benchmarks.speed", ["bare", *TINY], ["serial", *TINY])}, turns=1)
    assert [turn.work for turn in found["two"]] == [48]
    assert all(turn.seconds > 0 for turn in found["two"])


def test_a_contestant_that_fails_is_told_of() -> None:
    contestant = Contestant("benchmarks.speed", ["bare", "clients=0"])
    with pytest.raises(RuntimeError, match="clients=0"):
        contestant.turn()
    contestant.end()
