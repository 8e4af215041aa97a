"""Stochastic gradient descent with momentum and weight decay, step for step that of `torch.optim.SGD`.

Written out because constructing anything of `torch.optim` imports PyTorch's compiler: about as long as
importing PyTorch itself, and 75 MB in every worker process.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class SGD:
    """Moves the parameters in place and counts its steps in units of plain SGD steps (`amount`)."""

    def __init__(self, parameters: Sequence[Tensor], *, lr: float, momentum: float, weight_decay: float) -> None:
        self.parameters = list(parameters)
        self.lr = lr
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.amount = 0.0
        self._velocity: list[Tensor] = []
        self._weight = 0.0  # of all gradients in the velocity: 1 + momentum + momentum² + …

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """Take one step; the gradients are left as they are."""
        direction = list(gradients)
        if self.weight_decay:
            direction = list(torch._foreach_add(direction, self.parameters, alpha=self.weight_decay))
        if self.momentum:
            if self._velocity:
                torch._foreach_mul_(self._velocity, self.momentum)
                torch._foreach_add_(self._velocity, direction)
            else:
                self._velocity = [gradient.clone() for gradient in direction]
            direction = self._velocity
        torch._foreach_add_(self.parameters, direction, alpha=-self.lr)
        self._weight = self._weight * self.momentum + 1
        self.amount += self._weight
