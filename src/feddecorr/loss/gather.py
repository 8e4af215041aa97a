"""Representations of all processes of a distributed training, as one batch with gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed

from feddecorr.errors import UserError


def gather_processes(z: Tensor) -> Tensor:
    """Return the (n, d) of all processes one after another, in the order of their ranks; numbers n may differ.

    A loss of the result is the same in every process. Its gradient comes back summed over the processes, as each of
    them has computed it: DistributedDataParallel, which takes the mean over processes, then has the gradient that
    one process would have with the whole batch.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        raise UserError(
            "there are no processes to gather representations from: call torch.distributed.init_process_group, or "
            "leave gather=True out"
        )
    gathered: Tensor = _Gather.apply(z)  # type: ignore[no-untyped-call]  # torch gives it no types
    return gathered


class _Gather(torch.autograd.Function):
    """Uses nothing but all_gather and all_reduce, which every backend has."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        world, rank = distributed.get_world_size(), distributed.get_rank()
        mine = torch.tensor([len(z)], device=z.device)
        counts = [torch.zeros_like(mine) for _ in range(world)]
        distributed.all_gather(counts, mine)
        sizes = [int(count) for count in counts]
        padded = z.new_zeros(max(sizes), *z.shape[1:])
        padded[: len(z)] = z
        parts = [torch.empty_like(padded) for _ in range(world)]
        distributed.all_gather(parts, padded)
        ctx.start, ctx.size = sum(sizes[:rank]), len(z)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Tensor:
        total = slope.contiguous().clone()
        distributed.all_reduce(total)
        return total[ctx.start : ctx.start + ctx.size]
