"""Stochastic gradient descent with momentum and weight decay, step for step that of `torch.optim.SGD(fused=True)`.

It calls the same kernel, but without `torch.optim`: constructing anything of that imports PyTorch's compiler, which
takes about as long as importing PyTorch itself, and 75 MB in every worker process.
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
        self._rows = [_row(parameter.detach()) for parameter in self.parameters]
        self._velocity = [torch.empty_like(row) for row in self._rows] if momentum else []
        self._weight = 0.0  # of all gradients in the velocity: 1 + momentum + momentum² + …

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """Take one step; the gradients are left as they are."""
        torch._fused_sgd_(
            self._rows,
            [_row(_laid_out(*pair)) for pair in zip(gradients, self.parameters, strict=True)],
            self._velocity,
            weight_decay=self.weight_decay,
            momentum=self.momentum,
            lr=self.lr,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=self.amount == 0,
        )
        self._weight = self._weight * self.momentum + 1
        self.amount += self._weight


def _row(tensor: Tensor) -> Tensor:
    """Return a tensor without gaps as one row of numbers, as they lie: the kernel needs half the time for that."""
    return tensor.as_strided((tensor.numel(),), (1,))


def _laid_out(gradient: Tensor, parameter: Tensor) -> Tensor:
    """Return the gradient in the parameter's memory format, so that rows of both match."""
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)
