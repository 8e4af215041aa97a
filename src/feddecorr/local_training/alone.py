"""One client's network by itself: the module as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from feddecorr.local_training.tally import Tally
from feddecorr.methods import Local, Method
from feddecorr.objective import Pass, Term
from feddecorr.representation import Seen


class Alone:
    """Learns from batches of images and labels; `seen` catches what the module's classifier takes in."""

    def __init__(self, local: Local, method: Method, terms: Mapping[str, Term], seen: Seen) -> None:
        self.tally = Tally(list(terms))
        self.trainable = local.trainable
        self._local, self._method, self._seen = local, method, seen
        self._terms = list(terms.values())
        self._parameters = dict(local.model.named_parameters())

    def gradients(self, batch: tuple[Tensor, Tensor]) -> Sequence[Tensor]:
        """Return what the method makes of the gradient."""
        x, y = batch

        def compute() -> Sequence[Tensor]:
            logits = self._local.model(x)
            forward = Pass(x, y, self._seen.z, logits, self._parameters)
            values = [term(forward) for term in self._terms]
            self.tally.add(values)
            total = sum(values[1:], start=values[0])
            return torch.autograd.grad(total, self.trainable, materialize_grads=True)

        gradients = self._method.gradient(self._local, compute)
        self.tally.end_step()
        return gradients
