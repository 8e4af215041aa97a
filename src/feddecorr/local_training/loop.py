"""The one training loop, over the steps of one client or of several side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from torch import Tensor

from feddecorr.optimizers import Optimizer

Batch = TypeVar("Batch")
Given = TypeVar("Given", contravariant=True)

Shorten = Callable[[Sequence[Tensor]], Sequence[Tensor]]
"""Scales gradients that are too long."""


class Learner(Protocol[Given]):
    """What is trained: a client's network, or those of several clients."""

    def gradients(self, batch: Given) -> Sequence[Tensor]:
        """Return the gradient of the objective of one step, for each tensor that is trained."""


def train(
    learner: Learner[Batch],
    batches: Iterable[Batch],
    optimizer: Optimizer,
    shorten: Shorten | None = None,
) -> list[float]:
    """Take all local steps; return what they amount to after each."""
    amounts = []
    for batch in batches:
        gradients = learner.gradients(batch)
        optimizer.step(gradients if shorten is None else shorten(gradients))
        amounts.append(optimizer.amount)
    return amounts
