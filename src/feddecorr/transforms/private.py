"""Clipping, a bound on what one client can change, and client-level differential privacy, which needs one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import torch
from pydantic import Field, PositiveFloat

from feddecorr.core.messages import Broadcast, RoundInfo, Server, Update
from feddecorr.core.randomness import gaussian, generator
from feddecorr.core.states import State
from feddecorr.errors import UserError
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
    return {name: tensor / length * (norm * (1 - ROUNDING)) for name, tensor in change.items()}


def difference(start: State, end: State) -> State:
    """Return end − start in float64, in which differences of float32 numbers neither overflow nor underflow."""
    return {name: end[name].double() - tensor.double() for name, tensor in start.items()}


def l2_norm(change: State) -> float:
    """Return the norm over all tensors, scaled by the largest entry: the square itself may overflow."""
    largest = max((float(tensor.abs().max()) for tensor in change.values() if tensor.numel()), default=0.0)
    if not largest:
        return 0.0
    return largest * math.sqrt(math.fsum(float((tensor / largest).square().sum()) for tensor in change.values()))


NOBODY = -1
"""The client number of the noisy sum, which belongs to no client."""


class Privacy(Transform):
    """What central and local privacy share: a clipping norm, and noise scaled to it."""

    clipping_norm: PositiveFloat = Field(1.0, description="clipping norm: bound on the norm of a client's update")
    noise_multiplier: PositiveFloat = Field(1.0, description="standard deviation of the noise over the clipping norm")
    seed: int | None = Field(
        None, description="seed of the noise, for repeatable simulations; without it, the noise is unpredictable"
    )

    @property
    def deterministic(self) -> bool:
        """Only with a seed."""
        return self.seed is not None

    def check_server(self, server: Server, extra: State) -> None:
        """Refuse models and methods that reveal clients' data other than through the weights."""
        if extra or any(tensor.is_floating_point() for tensor in server.buffers.values()):
            raise UserError(
                "differential privacy protects only the weights: choose a method that sends nothing else, and a "
                "model without BatchNorm statistics (model.norm=group, or your own model)"
            )

    def _add_noise(self, change: State, number: int, client: int) -> State:
        """Return the change, in float64, plus noise of standard deviation noise_multiplier·clipping_norm."""
        stream = None if self.seed is None else generator(self.seed, "privacy", number, client)
        return {
            name: torch.add(tensor, gaussian(tensor.shape, stream), alpha=self.noise_multiplier * self.clipping_norm)
            for name, tensor in change.items()
        }


class Private(Privacy):
    """Client-level differential privacy with a trusted server: DP-FedAvg with fixed clipping (McMahan et al., 2018).

    The method gets one update: the noisy sum of clipped updates over the cohort size (under sampling=poisson, its
    mean). All clients have equal weight. A missing client adds nothing to the sum and leaves no other trace.
    'feddecorr privacy' computes what a run spends.
    """

    def __call__(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:
        """Add noise of standard deviation noise_multiplier·clipping_norm to the sum of the clipped updates."""
        total = {name: torch.zeros_like(tensor, dtype=torch.float64) for name, tensor in broadcast.weights.items()}
        for update in updates:
            for name, change in clipped_update(broadcast.weights, update.weights, self.clipping_norm).items():
                total[name] += change
        noisy = self._add_noise(total, info.round, client=0)
        yield Update(
            round=info.round,
            client=NOBODY,
            examples=info.cohort,
            amount=1.0,
            weights=moved(broadcast.weights, noisy, info.cohort),
            buffers=broadcast.buffers,
            extra={},
            metrics={},
        )

    def round_info(self, info: RoundInfo) -> RoundInfo:
        """Count every client as one example: a method that divides by all examples divides by all clients."""
        return replace(info, sizes=np.ones_like(info.sizes))

    @property
    def allows_empty_rounds(self) -> bool:
        """An empty sum is zero and gets noise like any other."""
        return True

    def check_order(self, before: Mapping[str, Transform], after: Mapping[str, Transform]) -> None:
        """Refuse transforms by which one client moves the sum by more than the norm, and any that come later."""
        for name, transform in before.items():
            if not transform.per_update:
                raise UserError(
                    f"transforms={name},private breaks the privacy guarantee: under {name} one client changes the "
                    "others' updates, and moves their sum by more than the clipping norm; leave one of them out"
                )
            if isinstance(transform, Privacy):
                raise UserError(f"transforms={name},private adds noise twice: choose one of them")
        for name in after:
            raise UserError(f"transforms=private,{name}: after private there is only one noisy sum; put private last")


class LocallyPrivate(Privacy):
    """Client-level local differential privacy: each client adds noise before it sends, so no server is trusted.

    The noise of n clients adds up: their mean has √n times the noise of central privacy. A client sends its clipped,
    noisy update and no terms of its objective; the server knows its number of examples.
    """

    per_update = True

    def send(self, update: Update, broadcast: Broadcast) -> Update:
        """Clip the update, add noise, and remove everything else that depends on the data."""
        change = clipped_update(broadcast.weights, update.weights, self.clipping_norm)
        noisy = self._add_noise(change, update.round, update.client)
        return replace(update, weights=moved(broadcast.weights, noisy), metrics={}, epochs={})

    def check_order(self, before: Mapping[str, Transform], after: Mapping[str, Transform]) -> None:  # noqa: ARG002 - post-processing reveals nothing more
        """Refuse to come after transforms on the server."""
        for name in before:
            raise UserError(
                f"transforms={name},locally_private: clients add noise before they send, and {name} comes later; "
                "put locally_private first"
            )


def moved(start: State, change: State, divisor: int = 1) -> State:
    """Return start + change/divisor, rounded once, to the type of the start."""
    return {name: (tensor.double() + change[name] / divisor).to(tensor.dtype) for name, tensor in start.items()}
