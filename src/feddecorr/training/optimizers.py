"""How a step moves the weights, step for step as `torch.optim` with `fused=True`.

The same kernels are called, but without `torch.optim`: constructing anything of that imports PyTorch's compiler,
which takes about as long as importing PyTorch itself, and 75 MB in every worker process. These are the only
unpublished functions of PyTorch that this package calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from feddecorr.core.states import norm

if TYPE_CHECKING:
    from feddecorr.config.training import Training


class Optimizer(Protocol):
    """Moves parameters in place; `amount` is the sum of its learning rates, counted as plain SGD steps.

    Where parameters are those of several clients, stacked, and gradients those of the first few, only those move,
    from then on.
    """

    @property
    def amount(self) -> float:
        """What the steps so far amount to."""

    def step(self, gradients: Sequence[Tensor]) -> None:
        """Take one step; the gradients are left as they are."""


class SGD:
    """Stochastic gradient descent with momentum and weight decay."""

    def __init__(self, parameters: Sequence[Tensor], *, lr: float, momentum: float, weight_decay: float) -> None:
        self._parameters = list(parameters)
        self._lr, self._momentum, self._weight_decay = lr, momentum, weight_decay
        self._rows = [_row(parameter.detach()) for parameter in self._parameters]
        self._velocity = [torch.empty_like(row) for row in self._rows] if momentum else []
        self._weight = 0.0  # of all gradients in the velocity: 1 + momentum + momentum² + …
        self._steps = 0.0  # the sum of those

    @property
    def amount(self) -> float:
        """The learning rate times FedNova's ‖a‖₁: under momentum, a gradient goes on acting in later steps."""
        return self._steps * self._lr

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """Take one step; the gradients are left as they are."""
        slopes = _rows(gradients, self._parameters)
        if len(slopes[0]) < len(self._rows[0]):
            self._rows, self._velocity = _narrowed(slopes, self._rows, self._velocity)
        torch._fused_sgd_(
            self._rows,
            slopes,
            self._velocity,
            weight_decay=self._weight_decay,
            momentum=self._momentum,
            lr=self._lr,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=self._steps == 0,
        )
        self._weight = self._weight * self._momentum + 1
        self._steps += self._weight


class AdamW:
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019)."""

    def __init__(
        self, parameters: Sequence[Tensor], *, lr: float, betas: tuple[float, float], weight_decay: float
    ) -> None:
        self._parameters = list(parameters)
        self._lr, self._betas, self._weight_decay = lr, betas, weight_decay
        self._rows = [_row(parameter.detach()) for parameter in self._parameters]
        self._first = [torch.zeros_like(row) for row in self._rows]
        self._second = [torch.zeros_like(row) for row in self._rows]
        self._counts = [torch.zeros((), device=row.device) for row in self._rows]
        self._steps = 0

    @property
    def amount(self) -> float:
        """The learning rate times the number of steps: what an adaptive step amounts to is not known."""
        return self._steps * self._lr

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """Take one step; the gradients are left as they are."""
        self._steps += 1
        slopes = _rows(gradients, self._parameters)
        if len(slopes[0]) < len(self._rows[0]):
            self._rows, self._first, self._second = _narrowed(slopes, self._rows, self._first, self._second)
        for count in self._counts:
            count.add_(1)
        torch._fused_adamw_(
            self._rows,
            slopes,
            self._first,
            self._second,
            [],
            self._counts,
            lr=self._lr,
            beta1=self._betas[0],
            beta2=self._betas[1],
            weight_decay=self._weight_decay,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )


def _sgd(parameters: Sequence[Tensor], training: Training, lr: float) -> SGD:
    return SGD(parameters, lr=lr, momentum=training.momentum, weight_decay=training.weight_decay)


def _adamw(parameters: Sequence[Tensor], training: Training, lr: float) -> AdamW:
    return AdamW(parameters, lr=lr, betas=training.betas, weight_decay=training.weight_decay)


OPTIMIZERS: dict[str, Callable[[Sequence[Tensor], Training, float], Optimizer]] = {"sgd": _sgd, "adamw": _adamw}


@torch.no_grad()
def clip(gradients: Sequence[Tensor], longest: float) -> list[Tensor]:
    """Return the gradient scaled to that norm where it is longer, as `torch.nn.utils.clip_grad_norm_` does it."""
    factor = (longest / (norm(gradients) + 1e-6)).clamp(max=1.0)
    return [gradient * factor for gradient in gradients]


@torch.no_grad()
def clip_each(gradients: Sequence[Tensor], longest: float) -> list[Tensor]:
    """Return the gradients of several clients, (clients, …), each of them clipped."""
    lengths = torch.stack([torch.linalg.vector_norm(gradient.flatten(1), dim=1) for gradient in gradients])
    factors = (longest / (torch.linalg.vector_norm(lengths, dim=0) + 1e-6)).clamp(max=1.0)
    return [gradient * factors.view(-1, *[1] * (gradient.ndim - 1)) for gradient in gradients]


def _rows(gradients: Sequence[Tensor], parameters: Sequence[Tensor]) -> list[Tensor]:
    return [_row(_match_layout(*pair)) for pair in zip(gradients, parameters, strict=True)]


def _narrowed(slopes: Sequence[Tensor], *lists: Sequence[Tensor]) -> tuple[list[Tensor], ...]:
    """Return the beginning of each row, as long as the slopes."""
    return tuple([row[: len(slope)] for row, slope in zip(rows, slopes, strict=False)] for rows in lists)


def _row(tensor: Tensor) -> Tensor:
    """Return a tensor without gaps as one row of numbers, as they lie: the kernel needs half the time for that."""
    return tensor.as_strided((tensor.numel(),), (1,))


def _match_layout(gradient: Tensor, parameter: Tensor) -> Tensor:
    """Return the gradient in the parameter's memory format, so that rows of both match."""
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_strided(gradient.shape, parameter.stride(), dtype=gradient.dtype, device=gradient.device).copy_(
        gradient
    )
