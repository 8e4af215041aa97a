"""The groups of clients of a round that wait for a worker, and how many go out with one message."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence

Group = tuple[int, ...]

MAX_DEATHS = 3
"""So often may the worker of a group be killed before the run gives up on it."""

WORK = 1 << 27
"""Images times weights in one message, at most, unless it is a single group: a few tenths of a second."""

ROOM = 1 << 22
"""Weights of all updates of one message, at most, unless it is a single group: 16 MB."""


class Waiting:
    """Hands out groups in their order, several at once where clients are tiny: a message costs as much as they do.

    How many is counted by images and weights, and by who else waits for work, without a clock.
    """

    def __init__(self, groups: Sequence[Sequence[int]], *, images: Callable[[int], int], weights: int) -> None:
        self._groups = deque(map(tuple, groups))
        self._images, self._weights = images, weights
        self._by_itself: set[Group] = set()
        self._deaths: Counter[Group] = Counter()

    def __len__(self) -> int:
        return len(self._groups)

    def take(self, workers: int) -> list[Group]:
        """Take out what one of so many workers is told to do next: at most its half of a fair share."""
        taken = [self._groups.popleft()]
        share = len(self) // (2 * workers)
        while len(taken) < share and taken[0] not in self._by_itself and self._fits([*taken, self._groups[0]]):
            taken.append(self._groups.popleft())
        return taken

    def _fits(self, groups: Sequence[Group]) -> bool:
        clients = [client for group in groups for client in group]
        return (
            groups[-1] not in self._by_itself
            and len(clients) * self._weights <= ROOM
            and sum(map(self._images, clients)) * self._weights <= WORK
        )

    def put_back(self, groups: Sequence[Group]) -> None:
        """Let them wait again, before all others."""
        self._groups.extendleft(reversed(groups))

    def blame(self, groups: Sequence[Group]) -> int:
        """Count a worker's death; return how often it was the group's that is to blame, and 0 if that is not known.

        Of several groups it is not known: from now on each of them goes by itself.
        """
        if len(groups) > 1:
            self._by_itself |= set(groups)
            return 0
        self._deaths[groups[0]] += 1
        return self._deaths[groups[0]]

    def give_up(self, group: Group) -> None:
        """Take a group out for good."""
        self._groups.remove(group)
