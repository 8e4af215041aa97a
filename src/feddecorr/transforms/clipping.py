"""Clipping: a bound on what one client can change."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from pydantic import Field, PositiveFloat

from feddecorr.core.messages import Broadcast, RoundInfo, Update
from feddecorr.core.states import State
from feddecorr.transforms.transform import Transform

ROUNDING = 1e-9
"""Relative margin below the clipping norm, so that the bound holds however the norm is computed."""


class Clip(Transform):
    """Clips each client's change of the weights to the clipping norm (Sun et al., 2019).

    BatchNorm statistics and what a method sends as `extra` stay as they are.
    """

    per_update = True

    clipping_norm: PositiveFloat = Field(1.0, description="bound on the norm of a client's update")

    def __call__(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:  # noqa: ARG002 - nothing else is needed
        """Clip one update after the other."""
        for update in updates:
            yield replace(update, weights=clipped_weights(broadcast.weights, update.weights, self.clipping_norm))


def clipped_weights(start: State, end: State, norm: float) -> State:
    """Return `end`, or a point on the line to it whose distance from `start` does not exceed the norm.

    Rounding to the dtype of the weights can push a point beyond the norm: then it moves closer to the start.
    """
    change = difference(start, end)
    length = l2_norm(change)
    if length <= norm * (1 - ROUNDING):
        return end
    slack = 2 * ROUNDING
    while True:
        factor = norm / length * max(0.0, 1 - slack)
        point = {name: (tensor.double() + factor * change[name]).to(tensor.dtype) for name, tensor in start.items()}
        if l2_norm(difference(start, point)) <= norm * (1 - ROUNDING):
            return point
        slack *= 2


def clipped_update(start: State, end: State, norm: float) -> State:
    """Return the change from start to end in float64, clipped to the norm."""
    change = difference(start, end)
    length = l2_norm(change)
    if length <= norm * (1 - ROUNDING):
        return change
    return {name: tensor * (norm / length * (1 - ROUNDING)) for name, tensor in change.items()}


def difference(start: State, end: State) -> State:
    """Return end − start in float64, in which differences of float32 numbers neither overflow nor underflow."""
    return {name: end[name].double() - tensor.double() for name, tensor in start.items()}


def l2_norm(change: State) -> float:
    """Return the norm over all tensors, scaled by the largest entry: the square itself may overflow."""
    largest = max((float(tensor.abs().max()) for tensor in change.values() if tensor.numel()), default=0.0)
    if not largest:
        return 0.0
    return largest * math.sqrt(math.fsum(float((tensor / largest).square().sum()) for tensor in change.values()))
