"""The FedDecorr loss as a module, for anybody's training loop: of all processes, with a watch on dying features."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, distributed, nn

from feddecorr.errors import UserError
from feddecorr.loss.decorrelation import Dying, Normalization, as_batch, check_options, feddecorr


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


RISE = 0.1
"""A share of all features that counts: that many more than at the start must be dead, twice in a row."""


class DyingFeatures(UserWarning):
    """Features become constant in training, and FedDecorr takes them for uncorrelated."""


class DyingWatch:
    """Compares shares of dead features with that at the start, and warns once when they have risen.

    `advice` ends the warning: it names the option that helps, as those set it who are warned. `start` finds out the
    share at the start, if that is ever asked for; without it, the first share that is seen is that at the start.
    """

    def __init__(self, advice: str, start: Callable[[], float] | None = None) -> None:
        self._advice = advice
        self._find = start
        self._start: float | None = None
        self._risen = False
        self._warned = False

    def see(self, share: float) -> None:
        """Take the next share; one that is high by chance, as on a batch of one class, is not a reason to warn."""
        if self._warned:
            return
        if self._start is None and (self._find is None or share >= RISE):
            self._start = share if self._find is None else self._find()
        risen = self._start is not None and share >= self._start + RISE
        if risen and self._risen:
            self._warned = True
            warnings.warn(
                f"{100 * share:.0f} % of the features of the representation have become constant "
                f"({100 * (self._start or 0):.0f} % at the start): they are dying. To FedDecorr a feature that never "
                "varies is uncorrelated, and where nothing is normalized before the representation it lowers its loss "
                f"by killing features: {self._advice}",
                DyingFeatures,
                stacklevel=3,
            )
        self._risen = risen


def dead_share(z: Tensor) -> float:
    """Return the share of the features of a batch of shape (n, d) that are the same in all its samples."""
    return float((z == z[0]).all(0).double().mean())


EVERY = 64
"""Calls from one look at dead features to the next: a look takes in the whole batch and waits for the device."""


class FedDecorrLoss(nn.Module):
    """The FedDecorr loss as a module: representations of shape (n, d) in, a scalar out.

    With `gather`, the batch is that of all processes of a distributed training, and the loss is the same in each.

    On the CPU, representations with NaN, infinity or numbers too large to be squared are refused. Elsewhere that
    would wait for the device in every step, and in a compiled graph it cannot be: there the loss becomes NaN.

    In training it now and then counts the features that do not vary over a batch, and warns once if they become
    more; with `dying="counted"`, which works against that, it does not. In a compiled graph it does not, either.
    """

    def __init__(
        self, normalization: Normalization = "released", dying: Dying = "ignored", *, gather: bool = False
    ) -> None:
        super().__init__()
        check_options(normalization, dying)
        self.normalization, self.dying = normalization, dying
        self.gather = gather
        self._watch = DyingWatch('FedDecorrLoss(dying="counted") works against that.')
        self._calls = 0
        self._largest = 0

    def forward(self, z: Tensor) -> Tensor:
        """Return the unweighted loss."""
        if not torch.compiler.is_compiling():
            if z.device.type == "cpu":
                _refuse_infinite(z.detach())
            if self.training and self.dying == "ignored":
                self._look(z.detach())
        return feddecorr(gather_processes(as_batch(z)) if self.gather else z, self.normalization, self.dying)

    def _look(self, z: Tensor) -> None:
        """Check every 64th batch, except smaller ones: in a few samples many features are constant."""
        if len(z) < max(self._largest, 2):
            return
        self._largest = len(z)
        if self._calls % EVERY == 0:
            self._watch.see(dead_share(as_batch(z)))
        self._calls += 1

    def extra_repr(self) -> str:
        """Return what `print` shows between the brackets."""
        return f"normalization={self.normalization!r}, dying={self.dying!r}{', gather=True' * self.gather}"


def _refuse_infinite(z: Tensor) -> None:
    if not math.isfinite(float(torch.linalg.vector_norm(as_batch(z)))):
        raise UserError(
            "the representations hold NaN, infinity or numbers too large to be squared: training has diverged "
            "(lower the learning rate), or the model's input was broken already"
        )
