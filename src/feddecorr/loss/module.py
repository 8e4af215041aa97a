"""The FedDecorr loss as a module, for anybody's training loop."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from feddecorr.errors import UserError
from feddecorr.loss.decorrelation import Dying, Normalization, as_batch, feddecorr, known_dying, known_normalization
from feddecorr.loss.dying import DyingWatch, dead_share
from feddecorr.loss.gather import gather_processes

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
        self.normalization = known_normalization(normalization)
        self.dying = known_dying(dying)
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
        """Look at every 64th batch, of those that are not smaller than others: in a few samples much is constant."""
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
