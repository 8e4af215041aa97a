"""What happens to updates between their check and the method, whichever that is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from pydantic import Field, PositiveFloat

from feddecorr.messages import Broadcast, RoundInfo, Update
from feddecorr.settings.kinds import Family, Kind
from feddecorr.states import extrapolate, square_distance

Updates = Callable[[Iterable[Update], Broadcast, RoundInfo], Iterator[Update]]
"""From the updates of a round to those that the method gets; it is told what was sent, round, seed and sizes."""


class Transform(Kind):
    """A change of the updates of a round that knows no method."""

    def __call__(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:
        """Yield the updates for the method; they may be fewer (a robust mean is one)."""
        raise NotImplementedError


class Clip(Transform):
    """Shortens each client's change of the weights to a norm, where it is longer (Sun et al., 2019).

    BatchNorm's statistics and what a method sends beside the weights are left alone.
    """

    norm: PositiveFloat = Field(1.0, description="greatest distance of a client's weights from those sent to it")

    def __call__(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:  # noqa: ARG002 - nothing else is needed
        """Shorten one after the other."""
        for update in updates:
            length = square_distance(update.weights, broadcast.weights) ** 0.5
            factor = min(1.0, self.norm / length) if length else 1.0
            yield replace(update, weights=extrapolate(broadcast.weights, update.weights, factor))


TRANSFORMS = Family("transform", Transform, {"clip": Clip})
