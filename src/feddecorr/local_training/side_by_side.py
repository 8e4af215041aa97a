"""Several clients' networks side by side: one product at a time for all of them, and to each its own objective."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from feddecorr.federation import Task
from feddecorr.local_training.batches import Visits
from feddecorr.local_training.part import Part
from feddecorr.local_training.pictures import Pictures
from feddecorr.local_training.rota import Rota, Step
from feddecorr.local_training.several import Objectives
from feddecorr.local_training.span import Span, pays
from feddecorr.local_training.stacked import Stacked, first_products
from feddecorr.local_training.tally import Tally
from feddecorr.objective import Pass
from feddecorr.states import State


class SideBySide:
    """Learns the networks of several clients, those with the most steps first; whoever is done leaves."""

    def __init__(self, task: Task, model: nn.Module, parts: Sequence[Part]) -> None:
        visits = [part.visits for part in parts]
        sent = parts[0].local.broadcast.weights
        self._objectives = Objectives(parts)
        self._pictures = Pictures(task, visits)
        self._spanned = first_products(model) if self._objectives.common and _is_linear(task) else None
        if self._spanned is not None and not _pays(sent[self._spanned], visits[0]):
            self._spanned = None
        self._span = None
        if self._spanned is not None:
            images = self._pictures.rows()
            self._span = Span(sent[self._spanned].to(images), images, self._pictures.sizes)
        self._stacked = Stacked(model, sent, len(parts), elsewhere=self._spanned)
        self._clients = len(parts)
        self.steps = Rota(visits, filling=0 if self._span is None else self._span.rows - 1)
        self._labels = self._pictures.labels(self.steps.places)
        self.tally = Tally(self._objectives.names)

    @property
    def trainable(self) -> list[Tensor]:
        """What is trained, for the clients that are not done."""
        return [*([] if self._span is None else self._span.trainable), *self._stacked.trainable]

    def gradients(self, step: Step) -> Sequence[Tensor]:
        """Return the gradient of everybody's objective by its own weights."""
        self._leave(len(step.sizes))
        z, logits = self._stacked(x := self._input(step))
        y = self._labels[: len(step.sizes), step.number, : max(step.sizes)]
        values = self._objectives(Pass(x, y, z, logits, self._stacked.weights), step.sizes)
        self.tally.add(values)
        self.tally.end_step()
        total = sum(values[1:], start=values[0]).sum()  # of terms that have nothing to do with each other
        return torch.autograd.grad(total, self.trainable, materialize_grads=True)

    def weights(self, client: int, room: State) -> State:
        """Return one client's weights; those that are still coordinates are made in the room, if there is any."""
        weights = self._stacked.of(client)
        if self._span is not None and self._spanned is not None:
            weights[self._spanned] = self._span.weights(client, room.get(self._spanned))
        return weights

    def _input(self, step: Step) -> Tensor:
        places = self.steps.places[: len(step.sizes), step.number, : max(step.sizes)]
        return self._pictures(places, step.sizes, step.number) if self._span is None else self._span(places)

    def _leave(self, clients: int) -> None:
        if clients < self._clients:
            self._clients = clients
            self._stacked.narrow(clients)
            if self._span is not None:
                self._span.narrow(clients)


def _is_linear(task: Task) -> bool:
    """Tell whether steps are linear in weights and gradients, and images the same in every epoch."""
    training = task.experiment.training
    return training.optimizer == "sgd" and training.clip is None and not task.experiment.data.augment


def _pays(weights: Tensor, most: Visits) -> bool:
    outputs, inputs = weights.shape
    visits = sum(map(sum, most.sizes))
    return pays(inputs=inputs, outputs=outputs, images=len(most.shard), steps=most.steps, visits=visits)
