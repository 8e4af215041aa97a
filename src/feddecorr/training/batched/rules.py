"""Batching rules in place of vmap's own: for convolutions and pooling a faster one, and where it has none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, avg_pool2d, batch_norm, conv2d, group_norm, max_pool2d
from torch.overrides import TorchFunctionMode

BLOCK = 8
"""Channels that a processor's kernels take at once, where there are as many: else channels last are twice as fast."""


class Rules(TorchFunctionMode):
    """While it is open, the functions that have a rule here are called by it."""

    def __torch_function__(
        self, function: Callable[..., Any], _types: object, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        return RULES.get(function, function)(*args, **(kwargs or {}))


def _convolve(  # noqa: PLR0913, PLR0917 - as conv2d
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Convolve the maps of all clients next to each other, channels last, with groups; vmap leaves them contiguous."""
    if x.ndim != 4 or not (weight.shape[0] % BLOCK or weight.shape[1] % BLOCK):
        return conv2d(x.contiguous(), weight, bias, stride, padding, dilation, groups)

    def joined(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        flat = None if bias is None else bias.flatten()
        return conv2d(x, weight.flatten(0, 1), flat, stride, padding, dilation, len(weight) * groups)

    found: Tensor = _Joined.apply(joined, x, weight, bias)  # type: ignore[no-untyped-call]  # PyTorch's
    return found


def _pool(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Pool the maps of all clients next to each other, channels last."""
    several = x.ndim == 4 and not kwargs.get("return_indices")
    pooled: Tensor = (
        _Joined.apply(lambda x: max_pool2d(x, *args, **kwargs), x)  # type: ignore[no-untyped-call]  # PyTorch's
        if several
        else max_pool2d(x, *args, **kwargs)
    )
    return pooled


def _contiguous(function: Callable[..., Tensor], x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Call a function that vmap cannot do with channels last."""
    return function(x.contiguous(), *args, **kwargs)


RULES: dict[Callable[..., Any], Callable[..., Any]] = {
    **{each: partial(_contiguous, each) for each in (adaptive_avg_pool2d, avg_pool2d, batch_norm, group_norm)},
    conv2d: _convolve,
    max_pool2d: _pool,
}


class _Joined(torch.autograd.Function):
    """A function of maps (n, clients · channels, height, width) and stacked parameters, under vmap over the clients.

    Its rule consists of ordinary operations, which autograd records: no gradient is to be given.
    """

    @staticmethod
    def forward(function: Callable[..., Tensor], x: Tensor, *parameters: Tensor) -> Tensor:
        raise NotImplementedError("only for vmap")

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Keep nothing."""

    @staticmethod
    def vmap(info: Any, in_dims: Any, function: Callable[..., Tensor], *tensors: Tensor | None) -> tuple[Tensor, int]:
        """Put the maps next to each other, and stack what acts on them."""
        x, *parameters = (_stack(each, dim, info.batch_size) for each, dim in zip(tensors, in_dims[1:], strict=True))
        assert x is not None  # noqa: S101 - for the types
        joined = x.transpose(0, 1).flatten(1, 2).contiguous(memory_format=torch.channels_last)
        return function(joined, *parameters).unflatten(1, (info.batch_size, -1)), 1


def _stack(tensor: Tensor | None, dim: int | None, clients: int) -> Tensor | None:
    """Return a tensor with the clients first, also where it is the same for all."""
    if tensor is None:
        return None
    return tensor.expand(clients, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
