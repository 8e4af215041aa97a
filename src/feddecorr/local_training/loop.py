"""The one training loop, over the steps of one client or of several side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from torch import Tensor

from feddecorr.optimizers import Optimizer

Batch = TypeVar("Batch")

Shorten = Callable[[Sequence[Tensor]], Sequence[Tensor]]
"""Scales gradients that are too long."""


def train(
    gradients: Callable[[Batch], Sequence[Tensor]],
    batches: Iterable[Batch],
    optimizer: Optimizer,
    shorten: Shorten | None = None,
) -> list[float]:
    """Take all local steps; return what they amount to after each."""
    amounts = []
    for batch in batches:
        slopes = gradients(batch)
        optimizer.step(slopes if shorten is None else shorten(slopes))
        amounts.append(optimizer.amount)
    return amounts
