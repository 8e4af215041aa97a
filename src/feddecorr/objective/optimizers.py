"""Local optimizers by name, and your own: how a step moves the weights.

SGD and AdamW take the steps of `torch.optim` with `fused=True`, bit for bit. They call the same kernels, but without
`torch.optim`: constructing one of its optimizers imports PyTorch's compiler, which takes about as long as importing
PyTorch itself, and 75 MB in every worker process. These are the only private functions of PyTorch that this package
calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from feddecorr.core.registry import Config, Registry
from feddecorr.core.states import State, norm


class Stepper(Protocol):
    """Moves the parameters of one local training in place.

    Where parameters are those of several clients, stacked, and gradients those of the first few, only those move,
    from then on.
    """

    @property
    def amount(self) -> float:
        """The sum of the learning rates so far, counted as plain SGD steps."""

    def step(self, gradients: Sequence[Tensor]) -> None:
        """Take one step; the gradients are left as they are."""


class Hyperparameters(Protocol):
    """What optimizers take of the settings `training.*`."""

    @property
    def momentum(self) -> float:
        """That of SGD."""

    @property
    def betas(self) -> tuple[float, float]:
        """The decays of Adam's moments."""

    @property
    def weight_decay(self) -> float:
        """That of any."""


class Optimizer(Config):
    """A local optimizer: it starts anew in every round, with `training.lr` and `training.weight_decay`.

    Your own one has `step` and, if it remembers anything between steps, `start`.
    """

    def start(self, parameter: Tensor) -> State:  # noqa: ARG002 - for those that remember
        """Return what is remembered for one parameter before the first step; nothing by default."""
        return {}

    def step(self, parameter: Tensor, gradient: Tensor, memory: State, *, lr: float, weight_decay: float) -> None:
        """Move one parameter and its memory in place; the gradient is left as it is."""
        raise NotImplementedError

    def stepper(
        self, parameters: Sequence[Tensor], training: Hyperparameters, lr: float, *, stacked: bool = False
    ) -> Stepper:
        """Return what moves the parameters of one round: with `stacked`, of several clients, (clients, …) each."""
        return PerParameter(self, parameters, lr=lr, weight_decay=training.weight_decay, stacked=stacked)


class PerParameter:
    """Takes an optimizer's steps, one parameter of one client after the other."""

    def __init__(
        self, optimizer: Optimizer, parameters: Sequence[Tensor], *, lr: float, weight_decay: float, stacked: bool
    ) -> None:
        self._optimizer, self._stacked = optimizer, stacked
        self._lr, self._weight_decay = lr, weight_decay
        self._parameters = [self._of_clients(parameter.detach()) for parameter in parameters]
        self._memories = [[optimizer.start(each) for each in clients] for clients in self._parameters]
        self._steps = 0

    @property
    def amount(self) -> float:
        """The learning rate times the number of steps."""
        return self._steps * self._lr

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """Take one step; the gradients are left as they are."""
        self._steps += 1
        for parameters, gradient, memories in zip(self._parameters, gradients, self._memories, strict=True):
            for each in zip(parameters, self._of_clients(gradient), memories, strict=False):  # the first ones, if fewer
                self._optimizer.step(*each, lr=self._lr, weight_decay=self._weight_decay)

    def _of_clients(self, tensor: Tensor) -> Sequence[Tensor]:
        return tensor.unbind() if self._stacked else [tensor]


class Fused:
    """Parameters and what is remembered of them as rows of numbers, which one of PyTorch's kernels moves all at once.

    `memories` is how many numbers are remembered for each parameter's: none, a velocity, two moments.
    """

    def __init__(self, parameters: Sequence[Tensor], *, lr: float, weight_decay: float, memories: int) -> None:
        self._parameters = list(parameters)
        self._lr, self._weight_decay = lr, weight_decay
        self._rows = [_row(parameter.detach()) for parameter in self._parameters]
        self._memories = [[torch.zeros_like(row) for row in self._rows] for _ in range(memories)]
        self._steps = 0.0

    @property
    def amount(self) -> float:
        """The learning rate times the number of steps, as the optimizer counts them."""
        return self._steps * self._lr

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """Take one step; the gradients are left as they are."""
        slopes = [_row(_match_layout(*pair)) for pair in zip(gradients, self._parameters, strict=True)]
        if len(slopes[0]) < len(self._rows[0]):  # those of the first clients alone
            self._rows, *self._memories = (
                [row[: len(slope)] for row, slope in zip(rows, slopes, strict=True)]
                for rows in (self._rows, *self._memories)
            )
        self._move(slopes)

    def _move(self, slopes: list[Tensor]) -> None:
        """Call the kernel, and count the step."""
        raise NotImplementedError


class FusedSGD(Fused):
    """Stochastic gradient descent with momentum and weight decay.

    Its amount is the learning rate times FedNova's ‖a‖₁: under momentum, a gradient acts on in later steps.
    """

    def __init__(self, parameters: Sequence[Tensor], *, lr: float, momentum: float, weight_decay: float) -> None:
        super().__init__(parameters, lr=lr, weight_decay=weight_decay, memories=1 if momentum else 0)
        self._momentum = momentum
        self._weight = 0.0  # of all gradients in the velocity: 1 + momentum + momentum² + …

    def _move(self, slopes: list[Tensor]) -> None:
        torch._fused_sgd_(
            self._rows,
            slopes,
            self._memories[0] if self._memories else [],
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


class FusedAdamW(Fused):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019).

    Its amount is the learning rate times the number of steps: what an adaptive step amounts to is not known.
    """

    def __init__(
        self, parameters: Sequence[Tensor], *, lr: float, betas: tuple[float, float], weight_decay: float
    ) -> None:
        super().__init__(parameters, lr=lr, weight_decay=weight_decay, memories=2)
        self._betas = betas
        self._counts = [torch.zeros((), device=row.device) for row in self._rows]

    def _move(self, slopes: list[Tensor]) -> None:
        self._steps += 1
        first, second = self._memories
        for count in self._counts:
            count.add_(1)
        torch._fused_adamw_(
            self._rows,
            slopes,
            first,
            second,
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


class SGD(Optimizer):
    """Stochastic gradient descent with `training.momentum` and `training.weight_decay`."""

    def stepper(self, parameters: Sequence[Tensor], training: Hyperparameters, lr: float, **_: bool) -> Stepper:
        """Return PyTorch's fused kernel: every number moves on its own, whether clients are stacked or not."""
        return FusedSGD(parameters, lr=lr, momentum=training.momentum, weight_decay=training.weight_decay)


class AdamW(Optimizer):
    """Adam with decoupled weight decay, with `training.betas` (Loshchilov and Hutter, 2019)."""

    def stepper(self, parameters: Sequence[Tensor], training: Hyperparameters, lr: float, **_: bool) -> Stepper:
        """Return PyTorch's fused kernel: every number moves on its own, whether clients are stacked or not."""
        return FusedAdamW(parameters, lr=lr, betas=training.betas, weight_decay=training.weight_decay)


OPTIMIZERS = Registry("optimizer", Optimizer, {"sgd": SGD, "adamw": AdamW})


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
