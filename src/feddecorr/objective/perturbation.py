"""Gradients beside the weights, for methods that look around before they step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from feddecorr.core.states import copy_into, norm

if TYPE_CHECKING:
    from feddecorr.objective.context import ClientContext, Compute

TINY = 1e-12


def scaled_to(length: float, direction: Sequence[Tensor]) -> list[Tensor]:
    """Return the direction with that norm over all weights together; of no direction, no step."""
    factor = length / (norm(direction) + TINY)
    return [part * factor for part in direction]


def gradient_beside(context: ClientContext, shift: Sequence[Tensor], compute: Compute) -> Sequence[Tensor]:
    """Return the gradient at w + shift; weights and BatchNorm statistics are put back as they were."""
    trainable = context.trainable
    state = [*trainable, *context.model.buffers()]
    kept = [tensor.detach().clone() for tensor in state]
    with torch.no_grad():
        for parameter, step in zip(trainable, shift, strict=True):
            parameter.add_(step)
    gradient = compute()
    copy_into(state, kept)
    return gradient
