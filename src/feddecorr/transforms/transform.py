"""Transforms: what happens to updates between local training and aggregation, whatever the method."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from torch import Tensor

from feddecorr.core.messages import Broadcast, Failure, RoundInfo, Server, Update
from feddecorr.core.registry import Config
from feddecorr.core.states import State
from feddecorr.errors import RunError
from feddecorr.partition.split import Parts

Updates = Callable[[Iterable[Update], Broadcast, RoundInfo], Iterator[Update]]
"""Maps the updates of a round to those that the method aggregates, given the broadcast and the round."""


class Transform(Config):
    """A change of a round's updates that knows no method: on the client, on the server, or both."""

    per_update: ClassVar[bool] = False
    """Whether each resulting update depends on one update alone, not on those of other clients."""

    def send(self, update: Update, broadcast: Broadcast) -> Update:  # noqa: ARG002 - neutral
        """Return what a client sends instead of its update; called on the client."""
        return update

    def __call__(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:  # noqa: ARG002 - neutral
        """Yield the updates for the method; there may be fewer (Krum keeps one)."""
        yield from updates

    def round_info(self, info: RoundInfo) -> RoundInfo:
        """Return what the method and later transforms learn about the round."""
        return info

    def labels(self, labels: Tensor, parts: Parts, classes: int) -> Tensor:  # noqa: ARG002 - neutral
        """Return the labels that simulated clients train on; `parts` is the split."""
        return labels

    def collude(
        self,
        answers: Iterable[Update | Failure],
        broadcast: Broadcast,  # noqa: ARG002 - neutral
        info: RoundInfo,  # noqa: ARG002 - neutral
    ) -> Iterable[Update | Failure]:
        """Return what clients send instead of their honest answers, before validation."""
        return answers

    def check(self, cohort: int) -> None:
        """Raise if this cannot work with a cohort of that size."""

    def check_order(self, before: Mapping[str, Transform], after: Mapping[str, Transform]) -> None:
        """Raise if other transforms, by name, would break what this one guarantees."""

    def check_server(self, server: Server, extra: State) -> None:
        """Raise for models (by the server's tensors) and methods (by what clients send as `extra`) it cannot handle."""

    @property
    def allows_empty_rounds(self) -> bool:
        """Whether it can handle a round without clients."""
        return self.per_update

    @property
    def deterministic(self) -> bool:
        """Whether a repeated run gives the same bits."""
        return True


def require_updates(updates: Sequence[Update], minimum: int, name: str) -> Sequence[Update]:
    """Return the updates; raise if there are fewer than the minimum."""
    if len(updates) < minimum:
        raise RunError(f"there are {len(updates)} updates, and {name} needs at least {minimum}")
    return updates
