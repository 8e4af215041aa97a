"""How long a study still takes, from what is done of it."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from feddecorr.config.experiment import Experiment
from feddecorr.sweeps.costs import Costs, Kind, kind

POOL_PAYS = 10.0
"""Seconds that a run must still have before it is worth to spread its clients over idle cores.

A pool of processes takes about a second to start, and waits for the slowest client of every round.
"""


@dataclass
class Spent:
    """Work as it was foreseen, and the seconds that it took."""

    foreseen: float = 0.0
    seconds: float = 0.0

    @property
    def factor(self) -> float | None:
        """Seconds for a unit of what was foreseen; None before anything is known."""
        return self.seconds / self.foreseen if self.foreseen else None


class Pace:
    """Learns how long rounds take: of each kind of run by itself, and of all together for kinds not yet seen.

    Runs are known by their digests. Costs only have to be right relative to each other.
    """

    def __init__(self, experiments: Mapping[str, Experiment]) -> None:
        self._experiments = experiments
        self._kinds: dict[str, Kind] = {digest: kind(experiment) for digest, experiment in experiments.items()}
        self._rounds: dict[str, Spent] = {digest: Spent() for digest in experiments}  # foreseen: how many
        self._starts: list[float] = []
        self.foresee(Costs({}))

    def foresee(self, costs: Costs) -> None:
        """Foresee by these costs from now on, and judge by them what was done before."""
        rounds = {digest: costs.of_round(experiment) for digest, experiment in self._experiments.items()}
        self._round = {digest: cost or 0.0 for digest, cost in rounds.items()}  # without data, nothing will be done
        self._by_kind: dict[Kind, Spent] = defaultdict(Spent)
        self._all = Spent()
        for digest, spent in self._rounds.items():
            self._add(digest, spent.foreseen, spent.seconds)

    def learn_start(self, seconds: float) -> None:
        """Take note of the time that a run took before its first round."""
        self._starts.append(seconds)

    def learn_round(self, digest: str, core_seconds: float) -> None:
        """Take note of what a round of a run took: seconds, times the cores that it had."""
        spent = self._rounds[digest]
        spent.foreseen += 1
        spent.seconds += core_seconds
        self._add(digest, 1, core_seconds)

    def _add(self, digest: str, rounds: float, seconds: float) -> None:
        for spent in (self._by_kind[self._kinds[digest]], self._all):
            spent.foreseen += rounds * self._round[digest]
            spent.seconds += seconds

    def seconds(self, digest: str, rounds: int, *, begun: bool) -> float | None:
        """Return how long so many rounds of the run take on one core; None before any round is known."""
        factor = self._by_kind[self._kinds[digest]].factor or self._all.factor
        if factor is None:
            return None
        start = sum(self._starts) / len(self._starts) if self._starts and not begun else 0.0
        return start + rounds * self._round[digest] * factor


def time_left(running: Iterable[float], waiting: Sequence[float], cores: int) -> float:
    """Return when the last run ends, if each core takes the next one that waits as soon as it is free.

    The end is never much later than the mean over the cores: the last long runs are spread over those that are idle.
    """
    ends = list(running)
    ends += [0.0] * (cores - len(ends))
    total = sum(ends) + sum(waiting)
    heapq.heapify(ends)
    for seconds in waiting:
        heapq.heappush(ends, heapq.heappop(ends) + seconds)
    return min(max(ends), total / len(ends) + POOL_PAYS)
