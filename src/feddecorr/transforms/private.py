"""Differential privacy of whole clients: nobody can tell from the models whether a client took part, or with what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import torch
from pydantic import Field, PositiveFloat
from torch import Tensor

from feddecorr.errors import UserError
from feddecorr.messages import Broadcast, RoundInfo, Server, Update
from feddecorr.noise import gaussian
from feddecorr.randomness import generator
from feddecorr.states import Mean, State
from feddecorr.transforms.clipping import shortened
from feddecorr.transforms.transform import Transform


class Privacy(Transform):
    """What both forms have: a bound on a client's change, and noise that hides a change of that length."""

    norm: PositiveFloat = Field(1.0, description="length to which a client's change of the weights is shortened")
    noise: PositiveFloat = Field(1.0, description="spread of the noise in every coordinate, measured by the norm")
    seed: int | None = Field(
        None, description="of the noise, to repeat a simulation; without it, nobody can foresee (or repeat) the noise"
    )

    def _noise(self, like: State, info: RoundInfo, client: int) -> dict[str, Tensor]:
        stream = None if self.seed is None else generator(self.seed, "privacy", info.round, client)
        return {name: gaussian(tensor.shape, stream) for name, tensor in like.items()}

    @property
    def repeatable(self) -> bool:
        """With a seed alone."""
        return self.seed is not None

    def check_server(self, server: Server, extra: State) -> None:
        """Refuse what would tell of clients' data beside the weights."""
        if extra or any(tensor.is_floating_point() for tensor in server.buffers.values()):
            raise UserError(
                "differential privacy protects the weights alone: choose a method that sends nothing beside them, and "
                "a network without BatchNorm's statistics (model.norm=group, or one of your own)"
            )

    def _bounded(self, update: Update, broadcast: Broadcast) -> Update:
        """Shorten the change, and leave nothing else in the update that tells of the client's data."""
        weights = shortened(broadcast.weights, update.weights, self.norm)
        return replace(update, weights=weights, examples=1, amount=1.0)


class Private(Privacy):
    """Client-level differential privacy by a trusted server: clipped changes, an equal mean, Gaussian noise.

    DP-FedAvg (McMahan et al., 2018) with fixed clipping. Every client's update becomes the noisy mean, which any
    method then takes. 'feddecorr privacy' tells what a run has spent.
    """

    def __call__(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:
        """Add noise of spread noise·norm to the sum, that is, noise·norm over the number of clients to the mean."""
        mean, taken = Mean(), []
        for update in updates:
            bounded = self._bounded(update, broadcast)
            mean.add(bounded.weights, 1)
            taken.append(replace(bounded, weights={}))
        if not taken:
            return
        spread = self.noise * self.norm / len(taken)
        noise = self._noise(mean.value, info, client=0)
        weights = {name: (value.double() + spread * noise[name]).to(value.dtype) for name, value in mean.value.items()}
        for update in taken:
            yield replace(update, weights=weights)


class LocallyPrivate(Privacy):
    """Client-level differential privacy without a trusted server, simulated: each client adds the noise itself.

    The noise of n clients adds up: a mean has √n times that of a trusted server's. In a deployment, clients have to
    do this before they send; here it is done when their updates have come.
    """

    def __call__(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:
        """Add noise of spread noise·norm to every update."""
        for update in updates:
            bounded = self._bounded(update, broadcast)
            noise = self._noise(bounded.weights, info, client=update.client)
            yield replace(
                bounded,
                weights={
                    name: torch.add(value.double(), noise[name], alpha=self.noise * self.norm).to(value.dtype)
                    for name, value in bounded.weights.items()
                },
            )
