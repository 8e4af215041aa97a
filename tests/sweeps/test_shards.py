"""Many runs without an engine: parts of a sweep on machines apart, and several machines on one shared folder."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from command_line import CommandLine
from own_studies import LOGGED, logged_arms, outcome, straight
from small import SETTINGS, without_time

from feddecorr.errors import UserError
from feddecorr.sweeps.jobs import RunShard

HELPERS = Path(__file__).parents[1] / "helpers"
VARIED = ("--over", "method=fedavg,fedprox", "--over", "clients=2,4", "--seeds", "2")
MORE = ("--over", "method=fedavg,fedprox", "--over", "clients=4,3,2,5", "--seeds", "2")
RUNS = 8


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mine.json").write_text(json.dumps({**SETTINGS, "rounds": 2}))
    return Path("mine.json")


def listed(feddecorr: CommandLine, *words: object) -> set[str]:
    return {run["digest"] for run in feddecorr("sweep", *words, "--dry-run", "--json").document["runs"]}


def test_every_run_is_in_one_part() -> None:
    chance = random.Random(0)
    digests = [f"{chance.getrandbits(64):016x}" for _ in range(300)]
    for count in (1, 2, 3, 7, 1000):
        parts = [RunShard(number, count) for number in range(1, count + 1)]
        assert {sum(digest in part for part in parts) for digest in digests} == {1}
    assert all(60 < sum(digest in RunShard(number, 4) for digest in digests) < 90 for number in (1, 2, 3, 4))


@pytest.mark.parametrize("word", ["0/3", "4/3", "1/0", "2", "a/b", "-1/3", "1/3/4", "1.0/2", "١/٢"])
def test_what_is_no_part_is_refused(word: str) -> None:
    with pytest.raises(UserError, match=r"expected i/n with i from 1 to n, such as 1/4"):
        RunShard.parse(word)


def test_a_run_stays_in_its_part_when_others_come_and_go(feddecorr: CommandLine, file: Path) -> None:
    few = [listed(feddecorr, file, *VARIED, "--shard", f"{number}/3") for number in (1, 2, 3)]
    more = [listed(feddecorr, file, *MORE, "--shard", f"{number}/3") for number in (1, 2, 3)]
    assert sum(map(len, few)) == RUNS == len(set.union(*few))
    assert sum(map(len, more)) == 2 * RUNS == len(set.union(*more))
    assert all(one <= other for one, other in zip(few, more, strict=True))


def test_parts_done_apart_and_merged_are_the_sweep(feddecorr: CommandLine, file: Path) -> None:
    """Run by run and weight by weight; and who knows the merged records has nothing left to do."""
    assert feddecorr("sweep", file, *VARIED, "--out", "whole").code == 0
    for number in (1, 2):
        done = feddecorr("sweep", file, *VARIED, "--out", f"part{number}", "--shard", f"{number}/2")
        assert done.code == 0
        assert f"shard {number}/2: " in done.err
        plan = json.loads(Path(f"part{number}/plan.json").read_text())
        assert len(plan["runs"]) == RUNS  # who watches sees them all
    parts = [outcome(Path(f"part{number}/runs")) for number in (1, 2)]
    assert not parts[0].keys() & parts[1].keys()
    assert parts[0] | parts[1] == outcome(Path("whole/runs"))

    assert feddecorr("records", "whole", "-o", "whole.jsonl").code == 0
    assert feddecorr("records", "part1", "part2", "-o", "merged.jsonl").code == 0
    assert recorded(Path("merged.jsonl")) == recorded(Path("whole.jsonl"))

    again = feddecorr("sweep", file, *VARIED, "--known", "merged.jsonl", "--out", "again")
    assert again.out.replace("again", "whole") == feddecorr("sweep", file, *VARIED, "--out", "whole").out
    assert not Path("again/runs").exists()


def recorded(file: Path) -> dict[str, object]:
    """Return all of a file of records but the seconds."""
    lines = map(json.loads, file.read_text().splitlines())
    return {line["digest"]: {**line, "rounds": list(map(without_time, line["rounds"]))} for line in lines}


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    return folder


@pytest.fixture
def host(shared: Path) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Return what starts a host that does all runs in a folder which it shares by NFS."""
    path = os.pathsep.join([str(HELPERS / "nfs"), str(HELPERS), *sys.path])
    script = f"from own_studies import *; do_logged_runs(Path({str(shared)!r}))"
    with ExitStack() as stack:

        def start() -> subprocess.Popen[bytes]:
            own = stack.enter_context(tempfile.TemporaryDirectory(prefix="t", ignore_cleanup_errors=True))
            environment = {**os.environ, "PYTHONPATH": path, "TMPDIR": own}
            return subprocess.Popen([sys.executable, "-c", script], env=environment, start_new_session=True)

        yield start


def test_hosts_on_a_shared_folder_do_nothing_twice(host: Callable[[], subprocess.Popen[bytes]], shared: Path) -> None:
    hosts = [host(), host()]
    assert [each.wait() for each in hosts] == [0, 0]
    begun = [line.split() for line in (shared / "rounds").read_text().splitlines()]
    assert sorted(begun) == [[str(which), str(number)] for which in range(LOGGED) for number in (1, 2, 3)]


def test_what_a_host_was_doing_when_it_died_is_taken_over_by_another(
    host: Callable[[], subprocess.Popen[bytes]], shared: Path, tmp_path: Path
) -> None:
    """With the bits of runs that one process did one after another."""
    died, other = host(), host()
    while not (shared / "rounds").exists():
        time.sleep(0.01)
    os.killpg(died.pid, signal.SIGKILL)
    died.wait()
    assert other.wait() == 0
    found = outcome(shared / "store")
    assert found == straight(logged_arms(shared), tmp_path / "straight")
    assert len(found) == LOGGED
