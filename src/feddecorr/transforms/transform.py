"""What happens to updates between their check and the method, whichever that is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from feddecorr.errors import RunError
from feddecorr.messages import Broadcast, RoundInfo, Server, Update
from feddecorr.settings.kinds import Kind
from feddecorr.states import State

Updates = Callable[[Iterable[Update], Broadcast, RoundInfo], Iterator[Update]]
"""From the updates of a round to those that the method gets; it is told what was sent, round, seed and sizes."""


class Transform(Kind):
    """A change of the updates of a round that knows no method."""

    def __call__(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:
        """Yield the updates for the method; they may be fewer (a robust mean is one)."""
        raise NotImplementedError

    def check(self, cohort: int) -> None:
        """Refuse an experiment with so many clients in a round, if that cannot work."""

    def check_server(self, server: Server, extra: State) -> None:
        """Refuse networks (by the server's tensors) and methods (by what clients send beside) that it cannot handle."""

    @property
    def repeatable(self) -> bool:
        """Whether the same run gives the same bits again."""
        return True


def checked_number(updates: Sequence[Update], fewest: int, why: str) -> Sequence[Update]:
    """Return the updates, if they are enough."""
    if len(updates) < fewest:
        raise RunError(f"{len(updates)} updates came, and {why} needs {fewest} at least")
    return updates
