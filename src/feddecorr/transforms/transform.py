"""What happens to updates between local training and the method, whichever that is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from torch import Tensor

from feddecorr.core.messages import Broadcast, Failure, RoundInfo, Server, Update
from feddecorr.core.registry import Config
from feddecorr.core.states import State
from feddecorr.errors import RunError
from feddecorr.partition import Parts

Updates = Callable[[Iterable[Update], Broadcast, RoundInfo], Iterator[Update]]
"""From the updates of a round to those that the method gets; it is told what was sent, round, seed and sizes."""


class Transform(Config):
    """A change of the updates of a round that knows no method: at each client, at the server, or both."""

    one_by_one: ClassVar[bool] = False
    """Whether what becomes of an update depends on that update alone, not on those of other clients."""

    def send(self, update: Update, broadcast: Broadcast) -> Update:  # noqa: ARG002 - for those who act there
        """Return what a client sends in place of its update; this is called where the client is."""
        return update

    def __call__(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:  # noqa: ARG002 - as above
        """Yield the updates for the method; they may be fewer (a robust mean is one)."""
        yield from updates

    def tell(self, info: RoundInfo) -> RoundInfo:
        """Return what the method, and transforms after this one, are to know of the clients."""
        return info

    def labels(self, labels: Tensor, parts: Parts, classes: int) -> Tensor:  # noqa: ARG002 - neutral
        """Return the labels that simulated clients train on, with `parts` saying whose they are."""
        return labels

    def collude(
        self,
        answers: Iterable[Update | Failure],
        broadcast: Broadcast,  # noqa: ARG002 - neutral
        info: RoundInfo,  # noqa: ARG002 - neutral
    ) -> Iterable[Update | Failure]:
        """Return what clients send in place of their honest answers, before anything is checked."""
        return answers

    def check(self, cohort: int) -> None:
        """Refuse an experiment with so many clients in a round, if that cannot work."""

    def check_order(self, before: Mapping[str, Transform], after: Mapping[str, Transform]) -> None:
        """Refuse an experiment in which other transforms, by name, would break what this one promises."""

    def check_server(self, server: Server, extra: State) -> None:
        """Refuse networks (by the server's tensors) and methods (by what clients send beside) that it cannot handle."""

    @property
    def takes_none(self) -> bool:
        """Whether it can handle a round in which nobody was drawn."""
        return self.one_by_one

    @property
    def repeatable(self) -> bool:
        """Whether the same run gives the same bits again."""
        return True


def checked_number(updates: Sequence[Update], fewest: int, why: str) -> Sequence[Update]:
    """Return the updates, if they are enough."""
    if len(updates) < fewest:
        raise RunError(f"{len(updates)} updates came, and {why} needs {fewest} at least")
    return updates
