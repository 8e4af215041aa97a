"""Products of a matrix with itself, from which the losses of representations are made."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def gram(x: Tensor) -> Tensor:
    """Return XXᵀ or XᵀX, whichever is smaller; of several X, of each."""
    return _product(x, rows=x.shape[-2] < x.shape[-1])


def between_rows(x: Tensor) -> Tensor:
    """Return XXᵀ, the inner products of the rows."""
    return _product(x, rows=True)


def off_diagonal(x: Tensor) -> Tensor:
    """Return the sum of the squared off-diagonal entries of XᵀX; of several X, of each."""
    n, d = x.shape[-2:]
    if n < d:
        # Not below zero, where rounding can take the difference of nearly equal sums.
        return (gram(x).square().sum((-2, -1)) - x.square().sum(-2).square().sum(-1)).clamp(min=0)
    return 2 * gram(x).triu(1).square().sum((-2, -1))


def _product(x: Tensor, *, rows: bool) -> Tensor:
    product: Tensor = _Product.apply(x, rows)  # type: ignore[no-untyped-call]  # torch gives it no types
    return product


class _Product(torch.autograd.Function):
    """Differentiates XXᵀ by one product where PyTorch takes two, and in full precision.

    Left to PyTorch, products of the backward pass follow autocast: when it is called inside of one, and in
    compiled functions always. It also works under `torch.func`, where batches of several clients are stacked.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, rows: bool) -> Tensor:
        return x @ x.mT if rows else x.mT @ x

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, bool], _output: Tensor) -> None:
        x, ctx.rows = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        with torch.autocast(x.device.type, enabled=False):
            both = slope + slope.mT
            product: Tensor = both @ x if ctx.rows else x @ both
            return product, None
