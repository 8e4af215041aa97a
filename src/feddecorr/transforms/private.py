"""Differential privacy of whole clients: nobody can tell from the models whether a client took part, or with what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import torch
from pydantic import Field, PositiveFloat

from feddecorr.core.messages import Broadcast, RoundInfo, Server, Update
from feddecorr.core.randomness import gaussian, generator
from feddecorr.core.states import State
from feddecorr.errors import UserError
from feddecorr.transforms.clipping import clipped
from feddecorr.transforms.transform import Transform

NOBODY = -1
"""Whose update the noisy sum is."""


class Privacy(Transform):
    """What both forms have: a bound on a client's change, and noise that hides a change of that length."""

    clipping_norm: PositiveFloat = Field(1.0, description="clipping norm: bound on the norm of a client's update")
    noise_multiplier: PositiveFloat = Field(1.0, description="standard deviation of the noise over the clipping norm")
    seed: int | None = Field(
        None, description="of the noise, to repeat a simulation; without it, nobody can foresee (or repeat) the noise"
    )

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

    def _add_noise(self, change: State, number: int, client: int) -> State:
        """Return a sum of changes, in float64, with noise of standard deviation noise_multiplier·clipping_norm."""
        stream = None if self.seed is None else generator(self.seed, "privacy", number, client)
        return {
            name: torch.add(tensor, gaussian(tensor.shape, stream), alpha=self.noise_multiplier * self.clipping_norm)
            for name, tensor in change.items()
        }


class Private(Privacy):
    """Client-level differential privacy by a trusted server: clipped changes, their noisy sum, a fixed divisor.

    DP-FedAvg (McMahan et al., 2018) with fixed clipping. The method gets one update, in which every client counts the
    same. The sum is divided by the number of clients that a round draws, under sampling=poisson on average: whoever is
    missing adds nothing to the sum, and leaves no other trace. 'feddecorr privacy' tells what a run has spent.
    """

    def __call__(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:
        """Add noise of standard deviation noise_multiplier·clipping_norm to the sum of the clipped changes."""
        total = {name: torch.zeros_like(tensor, dtype=torch.float64) for name, tensor in broadcast.weights.items()}
        for update in updates:
            for name, change in clipped(broadcast.weights, update.weights, self.clipping_norm).items():
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

    def tell(self, info: RoundInfo) -> RoundInfo:
        """Let every client count as one example: a method that divides by all examples divides by all clients."""
        return replace(info, sizes=np.ones_like(info.sizes))

    @property
    def takes_none(self) -> bool:
        """The sum of nobody's changes is zero, and gets noise like any other."""
        return True

    def check_order(self, before: Mapping[str, Transform], after: Mapping[str, Transform]) -> None:
        """Refuse what lets one client move the sum by more than the norm, and what wants clients' updates after it."""
        for name, transform in before.items():
            if not transform.one_by_one:
                raise UserError(
                    f"transforms={name},private breaks the privacy that is counted: by {name} one client changes what "
                    "becomes of the others' updates, and moves their sum by more than the norm; leave one of them out"
                )
            if isinstance(transform, Privacy):
                raise UserError(f"transforms={name},private adds noise twice: choose one of them")
        for name in after:
            raise UserError(f"transforms=private,{name}: after private there is one noisy sum; say private last")


class LocallyPrivate(Privacy):
    """Client-level differential privacy without a trusted server: each client adds the noise before it sends.

    The noise of n clients adds up: a mean has √n times that of a trusted server's. Of its data a client sends the
    shortened, noisy change of the weights, and no terms of its objective; the server knows how many examples it has.
    """

    one_by_one = True

    def send(self, update: Update, broadcast: Broadcast) -> Update:
        """Clip the change, add noise to it, and leave nothing else that tells of the data."""
        change = clipped(broadcast.weights, update.weights, self.clipping_norm)
        noisy = self._add_noise(change, update.round, update.client)
        return replace(update, weights=moved(broadcast.weights, noisy), metrics={}, epochs={})

    def check_order(self, before: Mapping[str, Transform], after: Mapping[str, Transform]) -> None:  # noqa: ARG002 - what is done to a noisy update later tells no more
        """Refuse to come after what is done at the server."""
        for name in before:
            raise UserError(
                f"transforms={name},locally_private: clients add their noise before they send, and {name} comes after; "
                "say locally_private first"
            )


def moved(start: State, change: State, divisor: int = 1) -> State:
    """Return start + change/divisor, rounded once, to the type of the start."""
    return {name: (tensor.double() + change[name] / divisor).to(tensor.dtype) for name, tensor in start.items()}
