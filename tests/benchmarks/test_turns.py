"""Contestants take turns, wherever the benchmark was started."""

from pathlib import Path

import pytest
from benchmarks.turns import Contestant, contest

COUNTING = "tests.helpers.counting"


def test_all_processes_of_a_contestant_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their work is added up; the first turn, which is to warm up, is not reported."""
    monkeypatch.chdir(tmp_path)
    found = contest({"one": Contestant(COUNTING, ["5"]), "two": Contestant(COUNTING, ["1"], ["100"])}, turns=2)
    assert {name: [turn.work for turn in turns] for name, turns in found.items()} == {
        "one": [10, 15],
        "two": [202, 303],
    }
    assert all(turn.speed == turn.work / turn.seconds > 0 for turn in found["two"])


def test_a_contestant_that_fails_is_reported() -> None:
    contestant = Contestant(COUNTING, ["no number"])
    with pytest.raises(RuntimeError, match="no number"):
        contestant.turn()
    contestant.end()
