"""The time left on a clock of the tests' own, and the memory of a machine of their own."""

import heapq
import random
from pathlib import Path

import pytest
from small import small

from feddecorr.config.experiment import Experiment
from feddecorr.results.study import Arm
from feddecorr.sweeps import status
from feddecorr.sweeps.jobs import Job, plan
from feddecorr.sweeps.status import (
    ASSUMED_PEAK,
    POOL_PAYS,
    Busy,
    Pace,
    available_memory,
    is_memory_short,
    peak_memory,
    time_left,
)

CORES = 2
START = 1.5

PLAIN, DEAR = ["method=fedavg"], ["method=moon"]
FACTOR = {"fedavg": 1.0, "moon": 1.8}


class World:
    """Does jobs on two cores with rounds of known lengths, and asks for the time left after each of them."""

    def __init__(self, jobs: list[Job], seed: int) -> None:
        self.waiting = list(jobs)
        self.pace = Pace()
        self.noise = random.Random(seed)
        self.now = 0.0
        self.busy: list[Busy] = []
        self.events: list[tuple[float, int]] = []
        self.asked: list[tuple[float, float | None]] = []
        self.finished = 0

    def seconds(self, experiment: Experiment) -> float:
        """Return how long a round takes in truth, which varies by a fifth."""
        passes = experiment.training.epochs * FACTOR[experiment.to_dict()["method"]["name"]]
        return 3.0 * passes * self.noise.uniform(0.9, 1.1)

    def run(self) -> float:
        """Return when the last run is done."""
        while self.waiting or self.busy:
            while self.waiting and len(self.busy) < CORES:
                busy = Busy(self.waiting.pop(0), 1, 1, self.now)
                self.busy.append(busy)
                heapq.heappush(self.events, (self.now + START + self.seconds(busy.job.experiment), id(busy)))
            self.now, which = heapq.heappop(self.events)
            self._round(next(busy for busy in self.busy if id(busy) == which))
        return self.now

    def _round(self, busy: Busy) -> None:
        self.pace.learn(busy.job, (self.now - busy.since) * busy.processes)
        busy.job.finished, busy.since = busy.job.finished + 1, self.now
        if busy.job.left:
            seconds = self.seconds(busy.job.experiment)
            if not self.waiting and len(self.busy) == 1 and busy.job.left * seconds > POOL_PAYS:
                busy.cores = busy.processes = CORES  # as the runner does it; a pool is not twice as fast
                seconds /= 0.85 * CORES
            heapq.heappush(self.events, (self.now + seconds, id(busy)))
        else:
            self.busy.remove(busy)
            self.finished += 1
        if self.finished:
            left = time_left(self.pace, waiting=self.waiting, busy=self.busy, held=[], cores=CORES, now=self.now)
            self.asked.append((self.now, left))


def world(*varied: list[str], seed: int) -> World:
    arms = [Arm({"n": n}, *small(*words, "rounds=10", f"seed={n}")) for n, words in enumerate(varied)]
    return World(plan(arms, Path("nowhere")), seed)


STUDIES = {
    "equal runs": [PLAIN] * 20,
    "runs of different lengths": [[*PLAIN, f"training.epochs={1 + n % 5}"] for n in range(20)],
    "cheap and dear runs in turn": [PLAIN, DEAR] * 10,
}


@pytest.mark.parametrize("study", STUDIES)
@pytest.mark.parametrize("seed", range(3))
def test_after_the_first_run_the_time_left_is_right_within_30_percent(study: str, seed: int) -> None:
    """Or by a round and what it takes to begin a run, at the very end."""
    varied = STUDIES[study]
    found = world(*varied, seed=seed)
    end = found.run()
    assert len(found.asked) > len(varied)
    for now, left in found.asked:
        assert left is not None
        assert left == pytest.approx(end - now, rel=0.3, abs=10.0)


def test_before_any_round_nothing_is_claimed() -> None:
    found = world(PLAIN, seed=0)
    assert time_left(found.pace, waiting=found.waiting, busy=[], held=[], cores=CORES, now=0.0) is None


def test_a_kind_of_run_that_was_not_seen_yet_takes_as_long_as_all_others() -> None:
    words = (PLAIN, DEAR, [*PLAIN, "training.epochs=4"])
    plain, dear, twice = plan([Arm({}, *small(*each, "rounds=2")) for each in words], Path("nowhere"))
    pace = Pace()
    pace.learn(plain, 5.0)
    assert pace.seconds(dear) == pytest.approx(10.0)
    assert pace.seconds(twice) == pytest.approx(20.0)
    pace.learn(dear, 8.0)
    assert pace.seconds(dear) == pytest.approx(16.0)
    assert pace.seconds(plain) == pytest.approx(10.0)


def test_runs_that_others_do_leave_more_cores_for_those_that_wait() -> None:
    """Another process that does a run will take a part of those that wait."""
    found = world(*[PLAIN] * 4, seed=0)
    held, *waiting = found.waiting
    found.pace.learn(held, 2.0)
    assert time_left(found.pace, waiting=waiting, busy=[], held=[held], cores=1, now=0.0) == pytest.approx(40.0)


GIGABYTE = 1 << 30


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Return a machine with 8 GB to be had, and a folder for a control group's files."""
    (tmp_path / "meminfo").write_text("MemTotal:  16777216 kB\nMemFree:  1024 kB\nMemAvailable:  8388608 kB\n")
    return tmp_path


def test_the_machine_says_what_can_be_had(machine: Path) -> None:
    assert available_memory(machine / "meminfo", machine) == 8 * GIGABYTE


def test_a_containers_limit_counts_if_it_leaves_less(machine: Path) -> None:
    """What its cache of files holds can be dropped, and counts as free."""
    (machine / "memory.max").write_text(f"{4 * GIGABYTE}\n")
    (machine / "memory.current").write_text(f"{3 * GIGABYTE}\n")
    (machine / "memory.stat").write_text(f"anon 5\ninactive_file {GIGABYTE}\nactive_file 7\n")
    assert available_memory(machine / "meminfo", machine) == 2 * GIGABYTE
    (machine / "memory.max").write_text("max\n")
    assert available_memory(machine / "meminfo", machine) == 8 * GIGABYTE


def test_where_the_system_says_nothing_memory_is_not_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert available_memory(tmp_path / "nothing", tmp_path) is None
    assert peak_memory(tmp_path / "nothing") == 0
    monkeypatch.setattr(status, "available_memory", lambda: None)
    assert not is_memory_short([0, 0], 0)


def test_a_run_begins_if_all_others_can_still_grow_to_the_largest_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "available_memory", lambda: 4 * GIGABYTE)
    assert not is_memory_short([0, 0], 0)  # 1 GB is assumed for each
    peak = 2 * GIGABYTE
    assert not is_memory_short([GIGABYTE], peak)  # 1 to grow, 2 to begin
    assert is_memory_short([GIGABYTE // 4, GIGABYTE // 2], peak)
    assert not is_memory_short([GIGABYTE // 4, GIGABYTE // 2], peak, kept=peak - ASSUMED_PEAK // 4)
    assert not is_memory_short([], peak)  # alone, it must be tried


def test_a_process_knows_its_peak() -> None:
    assert peak_memory() > 1 << 20
