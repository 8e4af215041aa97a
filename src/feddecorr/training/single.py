"""One client's network on its own: the module as it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor

from feddecorr.collapse.representation import (
    FeatureMaps,
    Representations,
    capture_feature_maps,
    capture_representations,
)
from feddecorr.objective.optimizers import clip
from feddecorr.objective.terms import Pass, Term
from feddecorr.training.batches import LabelledBatch
from feddecorr.training.client_round import ClientRound
from feddecorr.training.term_values import TermSums


class Alone:
    """Learns from batches of images and labels, while it is `watching` what the module makes of them."""

    stacked = False

    _seen: Representations

    def __init__(self, part: ClientRound) -> None:
        self.steps = part.visits.batches()
        self.trainable = part.context.trainable
        self.tally = TermSums(list(part.terms))
        self._method, self._model = part.method, part.context.model
        self._parameters = dict(self._model.named_parameters())
        self._terms = list(part.terms.values())
        self._rule = self._method.gradient(part.context)
        self._levels = FeatureMaps()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Catch representations and, where the method needs them, levels: after it has made its copies of the module.

        Those would be watched, too.
        """
        with ExitStack() as stack:
            self._seen = stack.enter_context(capture_representations(self._model))
            if self._method.needs_feature_maps:
                self._levels = stack.enter_context(capture_feature_maps(self._model))
            yield

    def gradients(self, step: LabelledBatch) -> Sequence[Tensor]:
        """Return what the method makes of the gradient of a batch."""
        x, y, places = step

        def compute(term: Term | None = None) -> Sequence[Tensor]:
            logits = self._model(x)
            forward = Pass(x, y, self._seen.z, logits, self._parameters, self._levels.pooled, places)
            value = self._objective(forward) if term is None else term(forward)
            return torch.autograd.grad(value, self.trainable, materialize_grads=True)

        gradients = self._rule(compute)
        self.tally.end_step()
        return gradients

    def _objective(self, forward: Pass) -> Tensor:
        values = [term(forward) for term in self._terms]
        self.tally.add(values)
        return sum(values[1:], start=values[0])

    def clip(self, gradients: Sequence[Tensor], longest: float) -> Sequence[Tensor]:
        """Return the gradient, scaled where it is longer than that."""
        return clip(gradients, longest)
