"""How long many runs still take, from what is done of them."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from feddecorr.config.experiment import Experiment
from feddecorr.methods import METHODS
from feddecorr.models import MODELS

POOL_PAYS = 10.0
"""Seconds that a run must still have before it is worth spreading its clients over idle cores.

A pool of processes takes about a second to start, and waits for the slowest client of every round.
"""


@dataclass
class TimeSpent:
    """Work, counted in passes over all training data, and the seconds that it took."""

    passes: float = 0.0
    seconds: float = 0.0

    @property
    def rate(self) -> float | None:
        """Seconds for a pass; None before anything is known."""
        return self.seconds / self.passes if self.passes else None


class Pace:
    """Learns how long a pass over the data takes: of each network and objective, and of all for those not yet seen."""

    def __init__(self, experiments: Mapping[str, Experiment]) -> None:
        """Take the runs by their digests."""
        self._experiments = experiments
        self._alike: dict[str, TimeSpent] = defaultdict(TimeSpent)
        self._all = TimeSpent()
        self._starts: list[float] = []

    def learn_start(self, seconds: float) -> None:
        """Take note of the time that a run took before its first round."""
        self._starts.append(seconds)

    def learn_round(self, digest: str, core_seconds: float) -> None:
        """Take note of what a round of a run took: seconds, times the cores that it had."""
        for spent in (self._alike[self._kind(digest)], self._all):
            spent.passes += self._passes(digest)
            spent.seconds += core_seconds

    def seconds(self, digest: str, rounds: int, *, begun: bool) -> float | None:
        """Return how long so many rounds of the run take on one core; None before any round is known."""
        rate = self._alike[self._kind(digest)].rate or self._all.rate
        if rate is None:
            return None
        start = sum(self._starts) / len(self._starts) if self._starts and not begun else 0.0
        return start + rounds * self._passes(digest) * rate

    def _kind(self, digest: str) -> str:
        experiment = self._experiments[digest]
        return "+".join([MODELS.name(experiment.model), METHODS.name(experiment.method), *experiment.regularizers])

    def _passes(self, digest: str) -> float:
        experiment = self._experiments[digest]
        return experiment.rate * (experiment.training.epochs if experiment.training.steps is None else 1)


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
