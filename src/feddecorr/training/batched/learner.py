"""Learns the networks of several clients at once, behind the protocol of the training loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from feddecorr.core.states import STATISTICS, State
from feddecorr.objective.optimizers import clip_each
from feddecorr.objective.terms import Pass
from feddecorr.training.batched.batches import StackedBatches, StackedStep
from feddecorr.training.batched.objectives import Cohort, Objectives
from feddecorr.training.batched.span import Span, spanned_weights
from feddecorr.training.batched.stacked import Outputs, Stacked
from feddecorr.training.client_round import ClientError, ClientRound
from feddecorr.training.task import Task
from feddecorr.training.term_values import TermSums


class BatchedLearner:
    """Learns from the batches of several clients, those with the most steps first; whoever is done leaves.

    `mixes` says that an image's outputs depend on the others of its batch: then batches are not padded, but clients
    whose batches have one size go through the network at once.
    """

    stacked = True

    def __init__(self, task: Task, model: nn.Module, parts: Sequence[ClientRound], *, mixes: bool) -> None:
        visits = [part.visits for part in parts]
        sent = parts[0].context.broadcast.weights
        self.steps = StackedBatches(task, visits)
        self._objectives = Objectives(parts)
        self.tally = TermSums(self._objectives.names)
        self._spanned = spanned_weights(task, model, visits) if self._objectives.common else None
        self._span: Span | None = None
        if self._spanned is not None:
            images = self.steps.rows()
            self._span = Span(sent[self._spanned].to(images), images, self.steps.counts)
        self._stacked = Stacked(model, sent, [part.buffers for part in parts], elsewhere=self._spanned)
        self._task, self._model, self._parts, self._mixes = task, model, parts, mixes
        self._clients = len(parts)

    def watching(self) -> AbstractContextManager[None]:
        """Catch what the module makes of images."""
        return self._stacked.watching(levels=self._task.experiment.method.needs_feature_maps)

    @property
    def trainable(self) -> list[Tensor]:
        """What is trained, for the clients that are not done."""
        return [*([] if self._span is None else self._span.trainable), *self._stacked.trainable]

    def gradients(self, step: StackedStep) -> Sequence[Tensor]:
        """Return the gradient of everybody's objective by its own weights."""
        self._leave(len(step.sizes))
        values = self._objectives(list(self._cohorts(step)), self._stacked.weights)
        self.tally.add(values)
        self.tally.end_step()
        total = sum(values[1:], start=values[0]).sum()  # of terms that have nothing to do with each other
        return torch.autograd.grad(total, self.trainable, materialize_grads=True)

    def _cohorts(self, step: StackedStep) -> Iterator[Cohort]:
        x = self.steps.images(step) if self._span is None else self._span(step.places)
        places = None if self._task.experiment.data.augment else step.places
        even, apart = len(step.cohorts) == 1, len(step.cohorts) > 1 and self._mixes
        outputs = None if apart else self._forward(x, range(len(x)))
        for size, clients in step.cohorts.items():
            rows = None if even else torch.tensor(clients, device=x.device)

            def cut(whole: Tensor, rows: Tensor | None = rows, size: int = size) -> Tensor:
                return whole if rows is None else whole.index_select(0, rows.to(whole.device))[:, :size]

            mine, y = cut(x), cut(step.y)
            z, logits, levels = self._forward(mine, clients, rows) if outputs is None else outputs
            if outputs is not None:
                z, logits, levels = cut(z), cut(logits), [cut(level) for level in levels]
            yield clients, Pass(mine, y, z, logits, {}, levels, None if places is None else cut(places))

    def _forward(self, x: Tensor, clients: Sequence[int], rows: Tensor | None = None) -> Outputs:
        try:
            return self._stacked(x, rows)
        except Exception as error:  # the same for all of them: the others fail by their own names
            raise ClientError(self._parts[clients[0]].client, error) from error

    def clip(self, gradients: Sequence[Tensor], longest: float) -> Sequence[Tensor]:
        """Return everybody's gradient, scaled where it is longer than that."""
        return clip_each(gradients, longest)

    def trained(self, client: int, out_buffers: State) -> tuple[State, State]:
        """Return one client's weights and buffers; weights that are still coordinates are made in the room, if any."""
        weights, buffers = self._stacked.of(client)
        if self._span is not None and self._spanned is not None:
            weights[self._spanned] = self._span.weights(client, out_buffers.get(self._spanned))
        return self._in_main_memory(weights, buffers)

    def mean(self, examples: Sequence[int], out_buffers: State) -> tuple[State, State]:
        """Return the mean of all clients' weights by their numbers of examples, and what is made of their buffers.

        Weights that are still coordinates become one product for all of them.
        """
        shares = torch.tensor(examples, dtype=torch.float64).div_(sum(examples)).to(self.trainable[0])
        weights = self._stacked.mean(shares)
        if self._span is not None and self._spanned is not None:
            weights[self._spanned] = self._span.mean(shares, out_buffers.get(self._spanned))
        statistics = STATISTICS[self._task.experiment.batchnorm]()
        for client, count in enumerate(examples):
            statistics.add(self._stacked.of(client)[1], count)
        return self._in_main_memory(weights, statistics.value)

    def _in_main_memory(self, weights: State, buffers: State) -> tuple[State, State]:
        names = [name for name, _ in self._model.named_parameters()]
        return {name: weights[name].cpu() for name in names}, {name: each.cpu() for name, each in buffers.items()}

    def _leave(self, clients: int) -> None:
        if clients < self._clients:
            self._clients = clients
            self._stacked.narrow(clients)
            if self._span is not None:
                self._span.narrow(clients)
