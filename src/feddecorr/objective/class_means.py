"""What a client's network makes of the client's images at the end of a round, by class."""

from __future__ import annotations

import torch
from torch import Tensor

from feddecorr.core.messages import Update
from feddecorr.core.states import State
from feddecorr.objective.reference_models import Reference
from feddecorr.objective.terms import TINY, ClientContext, Trained

MEANS, COUNTS = "means", "counts"


@torch.no_grad()
def representations(context: ClientContext, trained: Trained) -> tuple[Tensor, Tensor]:
    """Return those of all images of the client, by the trained network in evaluation mode, and the labels."""
    with Reference(context.model, {**trained.weights, **trained.buffers}).watched() as look:
        found = [(look(x)[0], y) for x, y in context.images()]
    z, y = (torch.cat(parts) for parts in zip(*found, strict=True))
    return z.cpu(), y.cpu()


def class_means(z: Tensor, y: Tensor, classes: int) -> State:
    """Return the mean of each class, zero where there are no samples of it, and how many there are."""
    counts = torch.bincount(y, minlength=classes).to(z)
    sums = z.new_zeros(classes, z.shape[1]).index_add_(0, y, z)
    return {MEANS: sums / counts.clamp(min=1).unsqueeze(1), COUNTS: counts}


class MergedMeans:
    """The means of each class over all clients, by the clients' numbers of samples of it."""

    def __init__(self, like: Tensor) -> None:
        self._sums = torch.zeros_like(like, dtype=torch.float64)
        self.counts = torch.zeros(len(like), dtype=torch.float64)

    def add(self, update: Update) -> None:
        """Take what one client sent; nobody counts for more samples than the update is of."""
        counts = update.extra[COUNTS].double().clamp(0, update.examples)
        self._sums.addcmul_(update.extra[MEANS].double(), counts.unsqueeze(1))
        self.counts += counts

    @property
    def value(self) -> Tensor:
        """The means, zero where nobody has samples."""
        return self._sums / self.counts.clamp(min=TINY).unsqueeze(1)
