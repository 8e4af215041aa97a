"""Terms of the parameters alone. Their gradients are known, so autograd has nothing to build or walk for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from feddecorr.objective import Pass, Term


def proximal(weight: float, anchor: list[Tensor]) -> Term:
    """Return the term (weight/2)·‖w − anchor‖²."""

    def term(forward: Pass) -> Tensor:
        parameters: list[Tensor] = list(forward.parameters.values())
        with torch.no_grad():
            gaps = torch._foreach_sub(parameters, anchor)
            value = torch.stack(torch._foreach_norm(gaps)).square().sum() * (weight / 2)
            torch._foreach_mul_(gaps, weight)
        return _known(value, gaps, parameters)

    return term


def linear(direction: list[Tensor]) -> Term:
    """Return the term ⟨direction, w⟩."""

    def term(forward: Pass) -> Tensor:
        parameters: list[Tensor] = list(forward.parameters.values())
        with torch.no_grad():
            products = torch._foreach_mul(parameters, direction)
            value = torch.stack([product.sum() for product in products]).sum()
        return _known(value, direction, parameters)

    return term


def _known(value: Tensor, gradient: Sequence[Tensor], parameters: Sequence[Tensor]) -> Tensor:
    scalar: Tensor = _Known.apply(value, gradient, *parameters)  # type: ignore[no-untyped-call]  # PyTorch's
    return scalar


class _Known(torch.autograd.Function):
    """A scalar with a known gradient: one node in the graph in place of several for each parameter."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, gradient: Sequence[Tensor], *_parameters: Tensor) -> Tensor:
        ctx.gradient = gradient
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> Any:
        return None, None, *torch._foreach_mul(ctx.gradient, outer[0])
