import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_up import over_seeds

from feddecorr.results.acceptance import check_file
from feddecorr.results.summary import Summary, write_summaries

RESULTS = Path(__file__).parents[2] / "results"
ENVIRONMENT = {
    "versions": {"python": "3.11.7", "torch": "2.13.0", "feddecorr": "0.1.0"},
    "commit": "0123456789" * 4,
    "platform": "Linux",
}


def good() -> list[Summary]:
    """Return three pairs, as they should be."""
    runs = [*over_seeds("", [0.4, 0.5, 0.6]), *over_seeds("regularizers=feddecorr", [0.5, 0.6, 0.7])]
    return [replace(run, environment=ENVIRONMENT, data="d", split=f"split {run.experiment['seed']}") for run in runs]


def check(tmp_path: Path, runs: list[Summary]) -> Any:
    write_summaries(tmp_path / "runs.jsonl", runs)
    return check_file(tmp_path / "runs.jsonl")


def test_whole_paired_runs_are_acceptable(tmp_path: Path) -> None:
    found = check(tmp_path, good())
    assert (found.runs, found.arms, found.pairs) == (6, 2, 3)
    assert list(found.problems) == list(found.notes) == []


def edit(place: int, **changed: Any) -> Callable[[list[Summary]], list[Summary]]:
    return lambda runs: [replace(run, **changed) if at == place else run for at, run in enumerate(runs)]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda runs: [replace(runs[0], rounds=runs[0].rounds[:-1]), *runs[1:]], "fewer rounds"),
        (lambda runs: [replace(runs[0], rounds=runs[0].rounds[::-1]), *runs[1:]], "rounds that are not 1, 2, 3"),
        (lambda runs: [*runs, runs[0]], "is there 2 times"),
        (lambda runs: runs[:3], "no pair"),
        (edit(1, environment={**ENVIRONMENT, "commit": None}), "no commit"),
        (edit(1, environment={**ENVIRONMENT, "versions": {}}), "no versions"),
        (edit(1, environment={}), "no platform"),
        (edit(1, split="another"), "other split"),
        (edit(1, data="another"), "other data"),
        (edit(1, experiment={**good()[1].experiment, "method": {"name": "fedavg", "of": "tomorrow"}}), "cannot read"),
    ],
)
def test_what_is_wrong_is_a_problem(tmp_path: Path, spoil: Callable[[list[Summary]], list[Summary]], says: str) -> None:
    found = check(tmp_path, spoil(good()))
    assert any(says in problem for problem in found.problems), found.problems


def test_what_may_be_so_is_a_note(tmp_path: Path) -> None:
    """Old records, changed sources, and runs that nothing is compared with."""
    runs = good()
    runs[0] = replace(runs[0], split=None)
    runs[1] = replace(runs[1], environment={**ENVIRONMENT, "commit": "0" * 40 + "+"})
    found = check(tmp_path, [*runs[:2], *runs[3:]])
    assert list(found.problems) == []
    assert [note.split(":")[0] for note in found.notes] == [
        "1 with no run without regularizers that has its seed",
        "1 with no sha256 of data and split, which are kept since 2026-11-19",
        "1 with a commit with changes that nobody else has",
    ]
    assert json.loads(json.dumps(found.to_dict()))["pairs"] == 2


@pytest.mark.parametrize("file", sorted(RESULTS.glob("*.jsonl")), ids=lambda file: file.name)
def test_our_own_records_are_acceptable(file: Path) -> None:
    assert list(check_file(file).problems) == []


def test_records_of_others_are_acceptable_without_a_note() -> None:
    for file in RESULTS.glob("contributed/*.jsonl"):
        found = check_file(file)
        assert [*found.problems, *found.notes] == [], file.name
