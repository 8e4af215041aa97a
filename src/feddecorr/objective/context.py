"""What a method's client hooks are given, and what they make of a gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from feddecorr.core.messages import Broadcast
from feddecorr.core.states import State, copy_into, norm
from feddecorr.objective.terms import Term


@dataclass(frozen=True)
class ClientContext:
    """What a method's client hooks see: the client, what it was sent and what it remembers."""

    client: int
    broadcast: Broadcast
    memory: State
    model: nn.Module
    labels: Tensor
    classes: int

    @property
    def counts(self) -> Tensor:
        """The number of the client's examples of each class, as floats on the model's device."""
        counts = torch.bincount(self.labels, minlength=self.classes)
        return counts.to(next(self.model.parameters()))

    @property
    def trainable(self) -> list[Tensor]:
        """The parameters that training moves, in the order of their gradients: not those of frozen layers."""
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    def as_parameter_list(self, state: State, *, trainable: bool = False) -> list[Tensor]:
        """Return a copy of the state in the order, on the device and in the memory format of the parameters.

        Those are all, or the ones that training moves.
        """
        return [
            torch.empty_like(mine).copy_(state[name])
            for name, mine in self.model.named_parameters()
            if mine.requires_grad or not trainable
        ]


@dataclass(frozen=True)
class Trained:
    """What local training ends with; `amount` is the sum of the steps' learning rates (see `Update`)."""

    weights: State
    buffers: State
    amount: float


class Compute(Protocol):
    """Gives the gradient of the current batch at the current weights, as often as it is asked."""

    def __call__(self, term: Term | None = None) -> Sequence[Tensor]:
        """Return that of the objective, which is recorded, or of another term."""


GradientRule = Callable[[Compute], Sequence[Tensor]]
"""What makes the gradient of a local step."""


TINY = 1e-12


def scaled_to(length: float, direction: Sequence[Tensor]) -> list[Tensor]:
    """Return the direction with that norm over all weights together; of no direction, no step."""
    factor = length / (norm(direction) + TINY)
    return [part * factor for part in direction]


def perturbed_gradient(context: ClientContext, shift: Sequence[Tensor], compute: Compute) -> Sequence[Tensor]:
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
