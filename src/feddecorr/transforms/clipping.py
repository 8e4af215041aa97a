"""A bound on what one client can change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pydantic import Field, PositiveFloat

from feddecorr.messages import Broadcast, RoundInfo, Update
from feddecorr.states import State, extrapolate, square_distance
from feddecorr.transforms.transform import Transform


class Clip(Transform):
    """Shortens each client's change of the weights to a norm, where it is longer (Sun et al., 2019).

    BatchNorm's statistics and what a method sends beside the weights are left alone.
    """

    norm: PositiveFloat = Field(1.0, description="greatest distance of a client's weights from those sent to it")

    def __call__(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:  # noqa: ARG002 - nothing else is needed
        """Shorten one after the other."""
        for update in updates:
            yield replace(update, weights=shortened(broadcast.weights, update.weights, self.norm))


def shortened(start: State, end: State, norm: float) -> State:
    """Return the end, or the point on the way to it that is so far from the start."""
    length = square_distance(end, start) ** 0.5
    return extrapolate(start, end, min(1.0, norm / length) if length else 1.0)
