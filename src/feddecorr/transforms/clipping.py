"""A bound on what one client can change."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from pydantic import Field, PositiveFloat

from feddecorr.core.messages import Broadcast, RoundInfo, Update
from feddecorr.core.states import State
from feddecorr.transforms.transform import Transform

ROUNDING = 1e-9
"""How much shorter than the norm a change is made, so that its length is no greater however it is measured."""


class Clip(Transform):
    """Shortens each client's change of the weights to a norm, where it is longer (Sun et al., 2019).

    BatchNorm's statistics and what a method sends beside the weights are left alone.
    """

    one_by_one = True

    clipping_norm: PositiveFloat = Field(1.0, description="bound on the norm of a client's update")

    def __call__(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:  # noqa: ARG002 - nothing else is needed
        """Shorten one after the other."""
        for update in updates:
            yield replace(update, weights=shortened(broadcast.weights, update.weights, self.clipping_norm))


def shortened(start: State, end: State, norm: float) -> State:
    """Return the end, or a point on the way to it that is no further than the norm from the start.

    A point that is rounded to the type of the weights may come to lie beyond: then it is taken closer to the start.
    """
    change = difference(start, end)
    whole = length(change)
    if whole <= norm * (1 - ROUNDING):
        return end
    slack = 2 * ROUNDING
    while True:
        factor = norm / whole * max(0.0, 1 - slack)
        point = {name: (tensor.double() + factor * change[name]).to(tensor.dtype) for name, tensor in start.items()}
        if length(difference(start, point)) <= norm * (1 - ROUNDING):
            return point
        slack *= 2


def clipped(start: State, end: State, norm: float) -> State:
    """Return the change from start to end in float64, shortened to the norm where it is longer."""
    change = difference(start, end)
    whole = length(change)
    if whole <= norm * (1 - ROUNDING):
        return change
    return {name: tensor * (norm / whole * (1 - ROUNDING)) for name, tensor in change.items()}


def difference(start: State, end: State) -> State:
    """Return end − start in float64, in which the difference of float32 numbers neither overflows nor vanishes."""
    return {name: end[name].double() - tensor.double() for name, tensor in start.items()}


def length(change: State) -> float:
    """Return the norm of all numbers together, measured by the largest: its square may be beyond all numbers."""
    largest = max((float(tensor.abs().max()) for tensor in change.values() if tensor.numel()), default=0.0)
    if not largest:
        return 0.0
    return largest * math.sqrt(math.fsum(float((tensor / largest).square().sum()) for tensor in change.values()))
