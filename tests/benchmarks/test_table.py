"""The table of benchmarks names what got worse, and nothing else."""

from importlib import import_module
from pathlib import Path
from typing import Any

import benchmarks.table
import pytest
from benchmarks.table import QUICK, RESULTS, ROWS, Row, compare, read

SPEED = Row("speed", ("ratio", "pool"), "more")
COST = Row("command", ("end",), "less")


def records(speed: float, cost: float) -> dict[str, Any]:
    return {"speed": {"ratio": {"pool": speed}}, "command": {"end": cost}}


@pytest.mark.parametrize(
    ("speed", "cost", "named"),
    [
        (2.0, 0.5, []),
        (1.83, 0.54, []),
        (1.7, 0.5, ["worse by 18 %: speed: ratio, pool"]),
        (9.0, 0.6, ["worse by 20 %: command: end"]),
        (1.0, 1.0, ["worse by 100 %: speed: ratio, pool", "worse by 100 %: command: end"]),
    ],
)
def test_what_is_worse_by_more_than_a_tenth_is_named(speed: float, cost: float, named: list[str]) -> None:
    """Of speeds, what is less; of costs, what is more; and what is better never."""
    _, worse = compare([SPEED, COST], records(speed, cost), records(2.0, 0.5))
    assert worse == named


def test_what_was_never_recorded_is_compared_with_nothing() -> None:
    table, worse = compare([SPEED, COST], records(1.0, 1.0), {"speed": {}, "command": {"end": 1.0}})
    assert [line.split()[-3:] for line in table.splitlines()[1:]] == [["1.000", "–", "–"], ["1.000", "1.000", "1.00×"]]
    assert worse == []


@pytest.mark.parametrize(("cost", "code"), [(0.54, 0), (0.56, 1)])
def test_the_exit_code_says_whether_anything_is_worse(
    cost: float, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the last lines name it."""
    monkeypatch.setattr(benchmarks.table, "ROWS", [COST])
    monkeypatch.setattr(benchmarks.table, "run", lambda _name: {"end": cost})
    monkeypatch.setattr(benchmarks.table, "read", lambda _file: {"end": 0.5})
    monkeypatch.setattr("sys.argv", ["table", "command"])
    with pytest.raises(SystemExit) as end:
        benchmarks.table.main()
    assert end.value.code == code
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == ("worse by 12 %: command: end" if code else "nothing is worse by more than 10 %")


def test_every_row_is_of_a_benchmark_that_is_run_and_recorded_so() -> None:
    """Where there is a record, it holds the number."""
    for row in ROWS:
        assert row.benchmark in QUICK, row.title
        assert Path(str(import_module(f"benchmarks.{row.benchmark}").__file__)).exists(), row.title
        recorded = read(RESULTS / f"{row.benchmark}.json")
        assert not recorded or row.read(recorded) > 0, row.title
