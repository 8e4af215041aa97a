"""Sweeps on Ray: the runs of a local sweep, whatever happens to nodes, and nothing left behind."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from families import HELPERS, Start, check_nothing_left, starting
from own_studies import arms, logged_arms, outcome, straight
from small import result, small, write_settings

from feddecorr.errors import UserError
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import run
from feddecorr.sweeps.executors import choose_executor
from feddecorr.sweeps.jobs import RunShard, plan
from feddecorr.sweeps.on_ray import OnRay
from feddecorr.sweeps.runner import Local, run_all
from feddecorr.sweeps.status import Status

RUNS = 24

MEMORY = Path("/dev/shm")  # noqa: S108 - where shared memory is seen


class Cluster:
    """Two nodes of one core each."""

    def __init__(self) -> None:
        command = [sys.executable, str(HELPERS / "ray_cluster.py")]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self.address = self._read()

    def do(self, what: str) -> float:
        """Let something happen, and return how many cores are free then."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        return float(self._read())

    def _read(self) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("answer "):
                return line.split()[1]
        raise RuntimeError("the cluster is gone")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Give a cluster with a token."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(HELPERS), *sys.path]))  # where the methods of these tests are
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        patch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # it is on the loopback
        found = Cluster()
        yield found
        found.process.communicate(timeout=60)


def test_a_node_dies_and_every_run_ends_with_the_bits_of_a_local_sweep(tmp_path: Path, cluster: Cluster) -> None:
    """The same as two shards merged; of what the dead node was doing, the rounds that came back are not done again."""
    given = logged_arms(tmp_path, RUNS)
    killed: list[Status] = []

    def tell(status: Status) -> None:
        if not killed and status.done >= 3 and len(status.running) == 2:
            killed.append(status)
            cluster.do("kill")

    failures = OnRay(address=cluster.address, interval=0).run(plan(given, tmp_path / "ray"), tell)
    assert failures == {}
    assert killed
    lines = (tmp_path / "rounds").read_text().splitlines()
    assert {tuple(line.split()) for line in lines} == {
        (str(run), str(each)) for run in range(RUNS) for each in (1, 2, 3)
    }
    assert len(lines) <= 3 * RUNS + 3
    found = outcome(tmp_path / "ray")
    assert len(found) == RUNS
    assert found == straight(given, tmp_path / "straight")
    for number in (1, 2):
        jobs = [job for job in plan(given, tmp_path / f"part{number}") if job.digest in RunShard(number, 2)]
        assert Local().run(jobs, lambda _: None) == {}
    assert outcome(tmp_path / "part1") | outcome(tmp_path / "part2") == found


def test_a_failure_stops_no_other(tmp_path: Path, cluster: Cluster) -> None:
    """And what was begun elsewhere continues; nodes of other processors are named."""
    cluster.do("add")
    begun = arms("method=fedprox", rounds=1)
    run_all(begun, tmp_path / "store")
    given = arms("method=outside:Failing", "method=fedprox")
    with pytest.warns(UserWarning, match=r"processors of 2 kinds \(.*DEFAULT"):
        failures = OnRay(address=cluster.address).run(plan(given, tmp_path / "store"), lambda _: None)
    cluster.do("drop")  # its bits are others
    (failure,) = failures.values()
    assert failure.reason == "client 1 failed in round 2: ZeroDivisionError: on purpose"
    assert 'raise ZeroDivisionError("on purpose")' in (failure.trace or "")
    finished = {job.digest: job.look() or job.finished for job in plan(given, tmp_path / "store")}
    assert list(finished.values()) == [1, True]


def test_what_no_node_has_is_refused(tmp_path: Path, cluster: Cluster) -> None:
    ray = OnRay(address=cluster.address, gpus=1)
    with pytest.raises(UserError, match="no node has more than 0"):
        ray.run(plan(arms("seed=1"), tmp_path), lambda _: None)


def test_flowers_simulation_joins_the_cluster(tmp_path: Path, cluster: Cluster) -> None:
    """With the bits of clients one after another; the cluster is there as before."""
    free = cluster.do("free")
    words = ["rounds=2", "method=scaffold"]
    joined = list(run(*small(*words, "engine=flower", f"engine.address={cluster.address}"), tmp_path / "joined"))
    assert result(joined) == result(run(*small(*words), tmp_path / "serial"))
    wait_for(lambda: cluster.do("free") >= free)


def test_a_killed_driver_leaves_nothing_on_the_cluster(tmp_path: Path, cluster: Cluster) -> None:
    settings = write_settings(tmp_path / "settings.json")
    free = cluster.do("free")
    with starting(tmp_path) as start:
        killed = start("sweep", settings, "rounds=100000", "--seeds", 1, "--on", cluster.address, "--out", "out")
        killed.wait_for(lambda: list(tmp_path.glob("out/runs/*/weights.safetensors")))
        seen = killed.family()
        assert cluster.do("free") < free
        killed.process.kill()
        killed.process.wait()
        check_nothing_left(killed, set(seen))
    wait_for(lambda: cluster.do("free") >= free)


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.5)


def done_rounds(out: Path) -> int:
    return sum(RunDirectory(run).finished_rounds() for run in out.glob("runs/*"))


def has_more(out: Path, rounds: int) -> bool:
    return done_rounds(out) > rounds


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return what starts commands, which are ended at last."""
    with starting(tmp_path) as start_one:
        yield start_one


def test_an_interrupted_and_a_killed_sweep_leave_nothing_and_continue(tmp_path: Path, start: Start) -> None:
    """Neither a process nor a file of the Ray that was started for them; nor does one that ends."""
    settings = write_settings(tmp_path / "settings.json")
    out = tmp_path / "out"
    words = ["--over", "method=fedavg,fedprox", "--jobs", "1", "--on", "ray", "--out", out]
    for sent, code in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
        before_it = done_rounds(out)
        stopped = start("sweep", settings, "rounds=100000", *words)
        stopped.wait_for(partial(has_more, out, before_it))
        seen = stopped.family()
        stopped.process.send_signal(sent)
        assert stopped.process.wait() == code
        check_nothing_left(stopped, set(seen))
    assert not [file for file in MEMORY.iterdir() if "plasma" in file.name]


def test_places_are_chosen_by_their_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert choose_executor("ray", {"jobs": 2, "memory": None}) == OnRay(jobs=2)
    assert choose_executor("ray://head:10001", {}) == OnRay(address="ray://head:10001")
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert choose_executor("ray", {}) == OnRay(address="10.0.0.1:6379")
    for on, options, says in (
        ("rya", {}, "did you mean 'ray'"),
        ("local", {"gpus": 1.0}, "--gpus is not for --on local, but for --on ray"),
        ("ray", {"time": "4:00"}, "--time is not for --on ray, but for --on slurm"),
    ):
        with pytest.raises(UserError, match=says):
            choose_executor(on, options)
