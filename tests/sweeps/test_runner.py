"""The laws of the runner, on runs of a second: each is done once, and nothing is lost."""

import os
import threading
import time
from pathlib import Path

import pytest
from own_studies import LOGGED, arms, do_logged_runs, outcome, straight

from feddecorr.engines.processes import context
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import run
from feddecorr.sweeps import runner, status
from feddecorr.sweeps.jobs import results_of
from feddecorr.sweeps.runner import run_all
from feddecorr.sweeps.status import Status


def test_every_run_is_there_with_the_bits_of_a_run_by_itself(tmp_path: Path) -> None:
    given = arms("method=fedavg", "method=fedprox", "regularizers=feddecorr")
    told: list[Status] = []
    assert run_all(given, tmp_path / "store", jobs=2, tell=told.append) == {}
    assert outcome(tmp_path / "store") == straight(given, tmp_path / "straight")
    assert (told[-1].done, told[-1].total, told[-1].left) == (3, 3, 0.0)
    assert max(len(status.running) for status in told) == 2


def test_what_is_done_is_not_touched_again(tmp_path: Path) -> None:
    given = arms("method=fedavg", "method=fedprox", rounds=1)
    run_all(given, tmp_path)
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")}
    assert run_all([*given, *given], tmp_path) == {}
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")} == before


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    (arm,) = given = arms("method=fedprox")
    path = tmp_path / "store" / arm.experiment.digest()
    records = run(arm.experiment, arm.options, path)
    next(records)
    records.close()
    first = RunDirectory.open(path).rounds()
    assert run_all(given, tmp_path / "store") == {}
    assert RunDirectory.open(path).rounds()[:1] == first
    assert outcome(tmp_path / "store") == straight(given, tmp_path / "straight")


def test_a_failure_is_told_with_its_reason_and_stops_no_other(tmp_path: Path) -> None:
    """Neither a client that raises nor settings that no data can fulfil."""
    given = arms("method=outside:Failing", "clients=1000", "method=fedavg", "method=fedprox")
    failures = run_all(given, tmp_path, jobs=2)
    raised, impossible = (failures[arm.experiment.digest()] for arm in given[:2])
    assert raised.reason == "client 1 failed in round 2: ZeroDivisionError: on purpose"
    assert raised.name == "method=outside:Failing, seed 0"
    assert "lower clients or partition.minimum" in impossible.reason
    assert len(failures) == 2
    assert [RunDirectory(tmp_path / arm.experiment.digest()).finished_rounds() for arm in given] == [1, 0, 3, 3]


def test_a_run_that_cannot_be_looked_at_fails_alone(tmp_path: Path) -> None:
    """A pipe in its place is not waited for, and its reason is told."""
    bad, good = given = arms("method=fedavg", "method=fedprox", rounds=1)
    run_all([bad], tmp_path)
    weights = tmp_path / bad.experiment.digest() / "weights.safetensors"
    weights.unlink()
    os.mkfifo(weights)
    failures = run_all(given, tmp_path)
    assert [failure.reason.partition(" is ")[2][:12] for failure in failures.values()] == ["a named pipe"]
    assert [result.summary is None for result in results_of(given, tmp_path)] == [True, False]
    assert RunDirectory(tmp_path / good.experiment.digest()).finished_rounds() == 1


@pytest.mark.parametrize(("times", "end"), [(1, 3), (1000, 1)])
def test_the_run_of_a_killed_process_goes_on_once(tmp_path: Path, times: int, end: int) -> None:
    """Then it is given up, with what became of it; others are done all the same."""
    deaths = tmp_path / "deaths"
    deaths.mkdir()
    killed = f"method=outside:Killed method.directory={deaths} method.times={times}"
    given = arms(killed, "method=fedavg")
    failures = run_all(given, tmp_path / "store", jobs=2)
    finished = [RunDirectory(tmp_path / "store" / arm.experiment.digest()).finished_rounds() for arm in given]
    assert finished == [end, 3]
    assert len(list(deaths.iterdir())) == min(times, 2)
    reasons = [failure.reason for failure in failures.values()]
    assert len(reasons) == (times > 1)
    assert all("ended 2 times, the last time in round 2 with exit code -9" in reason for reason in reasons)


def test_the_last_runs_spread_over_idle_cores_without_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "POOL_PAYS", 0.0)
    given = arms("method=fedprox", rounds=6)
    assert run_all(given, tmp_path / "store", jobs=2) == {}
    (path,) = (tmp_path / "store").iterdir()
    assert RunDirectory.open(path).settings()[1].to_dict()["engine"] == {"name": "pool", "workers": 2, "devices": []}
    assert outcome(tmp_path / "store") == straight(given, tmp_path / "straight")


def test_without_memory_for_two_runs_one_goes_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "available_memory", lambda: 0)
    told: list[Status] = []
    assert run_all(arms("method=fedavg", "method=fedprox", rounds=2), tmp_path, jobs=2, tell=told.append) == {}
    assert max(len(status.running) for status in told) == 1
    assert any(status.short_of_memory for status in told)


def test_a_run_that_another_process_holds_is_waited_for(tmp_path: Path) -> None:
    """It counts when it is done there; if it is let go before, it is taken up."""
    one, other = arms("method=fedavg", "method=fedprox")
    told: list[Status] = []
    elsewhere = iter(run(one.experiment, one.options, tmp_path / one.experiment.digest()))
    next(elsewhere)
    assert RunDirectory(tmp_path / one.experiment.digest()).is_held()

    def finish() -> None:
        while not any(status.elsewhere and status.done for status in told):
            time.sleep(0.05)
        next(elsewhere)
        elsewhere.close()

    thread = threading.Thread(target=finish)
    thread.start()
    assert run_all([one, other], tmp_path, jobs=2, tell=told.append) == {}
    thread.join()
    assert told[-1].done == 2
    assert RunDirectory(tmp_path / one.experiment.digest()).finished_rounds() == 3


def test_two_at_once_share_the_work_and_do_nothing_twice(tmp_path: Path) -> None:
    both = [context().Process(target=do_logged_runs, args=(tmp_path,)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    begun = [line.split() for line in (tmp_path / "rounds").read_text().splitlines()]
    assert sorted(begun) == [[str(which), str(number)] for which in range(LOGGED) for number in (1, 2, 3)]
    assert [RunDirectory(path).finished_rounds() for path in (tmp_path / "store").iterdir()] == [3] * LOGGED


def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    """Even if it is killed: the runs that they were doing can be taken up at once."""
    process = context().Process(target=do_logged_runs, args=(tmp_path,))
    process.start()
    while not (tmp_path / "rounds").exists():
        time.sleep(0.02)
    process.kill()
    process.join()
    until = time.monotonic() + 30
    while any(RunDirectory(path).is_held() for path in (tmp_path / "store").iterdir()):
        assert time.monotonic() < until
        time.sleep(0.02)
    do_logged_runs(tmp_path)
    assert [RunDirectory(path).finished_rounds() for path in (tmp_path / "store").iterdir()] == [3] * LOGGED
