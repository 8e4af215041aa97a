"""Several clients' networks side by side: one product at a time for all of them, and to each its own objective."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from feddecorr.core.states import STATISTICS, State
from feddecorr.objective.optimizers import clip_each
from feddecorr.objective.terms import Pass
from feddecorr.training.batched.joined_maps import TooFewError
from feddecorr.training.batched.joint_batches import JointBatches, JointStep
from feddecorr.training.batched.objectives import Objectives
from feddecorr.training.batched.span import Span, spanned_weights
from feddecorr.training.batched.stacked import Stacked
from feddecorr.training.client_round import ClientError, ClientRound
from feddecorr.training.task import Task
from feddecorr.training.term_values import TermSums


class SideBySide:
    """Learns the networks of several clients, those with the most steps first; whoever is done leaves."""

    def __init__(self, task: Task, model: nn.Module, parts: Sequence[ClientRound]) -> None:
        visits = [part.visits for part in parts]
        sent = parts[0].context.broadcast.weights
        self.steps = JointBatches(task, visits)
        self._objectives = Objectives(parts)
        self.tally = TermSums(self._objectives.names)
        self._spanned = spanned_weights(task, model, visits) if self._objectives.common else None
        self._span: Span | None = None
        if self._spanned is not None:
            images = self.steps.rows()
            self._span = Span(sent[self._spanned].to(images), images, self.steps.counts)
        self._stacked = Stacked(model, sent, [part.buffers for part in parts], elsewhere=self._spanned)
        self._names = [name for name, _ in model.named_parameters()]
        self._parts, self._clients = parts, len(parts)
        self._statistics = STATISTICS[task.experiment.batchnorm]
        self._augmented = bool(task.experiment.data.augment)

    @property
    def trainable(self) -> list[Tensor]:
        """What is trained, for the clients that are not done."""
        return [*([] if self._span is None else self._span.trainable), *self._stacked.trainable]

    def gradients(self, step: JointStep) -> Sequence[Tensor]:
        """Return the gradient of everybody's objective by its own weights."""
        self._leave(len(step.sizes))
        x = self.steps.images(step) if self._span is None else self._span(step.places)
        z, logits = self._forward(x, step.sizes)
        places = None if self._augmented else step.places
        values = self._objectives(Pass(x, step.y, z, logits, self._stacked.weights, places=places), step.sizes)
        self.tally.add(values)
        self.tally.end_step()
        total = sum(values[1:], start=values[0]).sum()  # of terms that have nothing to do with each other
        return torch.autograd.grad(total, self.trainable, materialize_grads=True)

    def _forward(self, x: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
        try:
            return self._stacked(x, sizes)
        except TooFewError as error:
            raise ClientError(self._parts[error.place].client, error) from error

    def clip(self, gradients: Sequence[Tensor], longest: float) -> Sequence[Tensor]:
        """Return everybody's gradient, scaled where it is longer than that."""
        return clip_each(gradients, longest)

    def trained(self, client: int, out_buffers: State) -> tuple[State, State]:
        """Return one client's weights and buffers; weights that are still coordinates are made in the room, if any."""
        weights, buffers = self._stacked.of(client)
        if self._span is not None and self._spanned is not None:
            weights[self._spanned] = self._span.weights(client, out_buffers.get(self._spanned))
        return _in_main_memory(weights, self._names), _in_main_memory(buffers, buffers)

    def mean(self, examples: Sequence[int], out_buffers: State) -> tuple[State, State]:
        """Return the mean of all clients' weights by their numbers of examples, and what is made of their buffers.

        Weights that are still coordinates become one product for all of them.
        """
        shares = torch.tensor(examples, dtype=torch.float64).div_(sum(examples)).to(self.trainable[0])
        weights = self._stacked.mean(shares)
        if self._span is not None and self._spanned is not None:
            weights[self._spanned] = self._span.mean(shares, out_buffers.get(self._spanned))
        statistics = self._statistics()
        for client, count in enumerate(examples):
            _, buffers = self._stacked.of(client)
            statistics.add(buffers, count)
        return _in_main_memory(weights, self._names), _in_main_memory(statistics.value, statistics.value)

    def _leave(self, clients: int) -> None:
        if clients < self._clients:
            self._clients = clients
            self._stacked.narrow(clients)
            if self._span is not None:
                self._span.narrow(clients)


def _in_main_memory(state: State, names: Iterable[str]) -> State:
    return {name: state[name].cpu() for name in names}
