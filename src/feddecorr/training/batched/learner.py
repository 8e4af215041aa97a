"""Learns the networks of several clients at once, behind the protocol of the training loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate, chain
from operator import itemgetter

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from feddecorr.core import devices
from feddecorr.core.states import STATISTICS, State
from feddecorr.objective.optimizers import clip_each
from feddecorr.objective.terms import Pass, Places, takes_several
from feddecorr.training.batched.span import Span, spanned_weights
from feddecorr.training.batched.stacked import Outputs, Stacked
from feddecorr.training.client import ClientError, ClientRound, TermSums
from feddecorr.training.shards import Visits
from feddecorr.training.task import Task


@dataclass(frozen=True)
class StackedStep:
    """One step of the first clients: how many images each takes, and which, by their places in the client's shard.

    `places` and labels `y` have the shape (clients, n); the batch of a client that takes fewer than n is padded.
    """

    number: int
    sizes: Sequence[int]
    places: Places
    y: Tensor

    @cached_property
    def cohorts(self) -> dict[int, list[int]]:
        """The clients, by the sizes of their batches."""
        cohorts: dict[int, list[int]] = {}
        for client, size in enumerate(self.sizes):
            cohorts.setdefault(size, []).append(client)
        return cohorts


class StackedBatches:
    """The steps of several clients, who begin together; those with the most steps come first.

    What pads a batch has a place after all images of any of them.
    """

    def __init__(self, task: Task, visits: Sequence[Visits]) -> None:
        self._task, self._visits = task, visits
        self._pixels = torch.cat([each.shard.images.pixels for each in visits])
        self.counts = [len(each.shard) for each in visits]
        self._starts = torch.tensor([0, *accumulate(self.counts[:-1])]).to(self._pixels.device)
        self._sizes = [tuple(chain.from_iterable(each.sizes)) for each in visits]
        table = _table(visits, self._sizes, padding=max(self.counts))
        self._places = Places(table, table.to(self._pixels.device))
        self._rows: dict[tuple[int, ...], Places] = {}
        labels = torch.cat([each.shard.images.labels for each in visits])
        self._labels = labels[self._everywhere(self._places.device)]
        if not devices.on_host(task.device):  # so that nothing crosses in a step
            for step in self:
                for clients in step.cohorts.values():
                    self.rows_of(clients)
        self._pixels_changed = [each.pixels() for each in visits] if task.experiment.data.augment else []

    def __iter__(self) -> Iterator[StackedStep]:
        for number in range(self._places.host.shape[1]):
            sizes = [each[number] for each in self._sizes if len(each) > number]
            taken = slice(len(sizes)), number, slice(max(sizes))
            yield StackedStep(number, sizes, self._places.each(itemgetter(taken)), self._labels[taken])

    def count(self, step: StackedStep) -> None:
        """Count the images of a step."""
        for mine, size in zip(self._visits, step.sizes, strict=False):
            mine.count(size)

    def rows_of(self, clients: Sequence[int]) -> Places:
        """Return the numbers of clients as indices; each set of them crosses to the device once."""
        key = tuple(clients)
        if key not in self._rows:
            host = torch.tensor(key)
            self._rows[key] = Places(host, host.to(self._pixels.device))
        return self._rows[key]

    def rows(self) -> Tensor:
        """Return all images, one client's after another's, one in each row."""
        return self._task.normalize(self._pixels).flatten(1)

    def images(self, step: StackedStep) -> Tensor:
        """Return the images of a step as the network takes them, of shape (clients, n, channels, height, width)."""
        if self._task.experiment.data.augment:
            widest = step.places.host.shape[1]
            pixels = torch.cat([self._changed(client, widest) for client in range(len(step.sizes))])
        else:
            pixels = self._pixels.index_select(0, self._everywhere(step.places.device).flatten())
        images = self._task.normalize(pixels)
        return images.view(*step.places.host.shape, *images.shape[1:])

    def _changed(self, client: int, widest: int) -> Tensor:
        changed = next(self._pixels_changed[client])
        return pad(changed, (0, 0) * 3 + (0, widest - len(changed)))

    def _everywhere(self, places: Tensor) -> Tensor:
        """Return places in a client's shard as places among the images of all; padding is somebody's image."""
        starts = self._starts[: len(places)].view(-1, *[1] * (places.ndim - 1))
        return (places + starts).clamp_(max=len(self._pixels) - 1)


def _table(visits: Sequence[Visits], sizes: Sequence[tuple[int, ...]], *, padding: int) -> Tensor:
    """Return everybody's places of all steps, of shape (clients, steps, n)."""
    widest, longest = max(map(max, sizes)), len(sizes[0])
    table = torch.full((len(visits), longest, widest), padding)
    masks: dict[tuple[int, ...], Tensor] = {}
    for mine, each, its in zip(table, visits, sizes, strict=True):
        taken = torch.cat([each.order(epoch) for epoch in range(len(each.sizes))])
        if its not in masks:
            masks[its] = torch.arange(widest) < torch.tensor(its).unsqueeze(1)
        mine[: len(its)].masked_scatter_(masks[its], taken)
    return table


Cohort = tuple[Sequence[int], Tensor, Pass]
"""Clients whose batches have one size, the same on the device, and their pass, of shapes (clients, n, …)."""


class Objectives:
    """Every client's own objective; all have terms of the same names.

    A term that is the same for all and can be asked for several clients is asked once for each cohort; any other is
    asked client by client. So no term ever sees what pads a batch.
    """

    def __init__(self, parts: Sequence[ClientRound]) -> None:
        self._parts, first = parts, parts[0].terms
        self.names = list(first)
        self._common = [
            name for name in first if takes_several(first[name]) and all(p.terms[name] is first[name] for p in parts)
        ]
        self.common = len(self._common) == len(first)
        """Whether every term is asked once for all: then nobody looks at images or parameters."""

    def __call__(self, cohorts: Sequence[Cohort], parameters: Mapping[str, Tensor]) -> list[Tensor]:
        """Return the values of each term, of shape (clients,), in the order of the names."""
        unbound: dict[str, tuple[Tensor, ...]] = {}
        parameters_of = partial(_OwnParameters, parameters, unbound)
        found = [self._values(clients, forward, parameters_of) for clients, _, forward in cohorts]
        if len(found) == 1:
            return found[0]
        order = torch.cat([rows for _, rows, _ in cohorts]).argsort()
        return [torch.cat(values).index_select(0, order) for values in zip(*found, strict=True)]

    def _values(
        self, clients: Sequence[int], forward: Pass, parameters_of: Callable[[int], Mapping[str, Tensor]]
    ) -> list[Tensor]:
        terms, own = self._parts[0].terms, [name for name in self.names if name not in self._common]
        values = {name: terms[name](forward) for name in self._common}
        found: dict[str, list[Tensor]] = {name: [] for name in own}
        for row, client in enumerate(clients if own else ()):
            part, mine = self._parts[client], _row(forward, row, parameters_of(client))
            with part.turn():
                for name in own:
                    found[name].append(part.terms[name](mine))
        values |= {name: torch.stack(each) for name, each in found.items()}
        return [values[name] for name in self.names]


def _row(forward: Pass, row: int, parameters: Mapping[str, Tensor]) -> Pass:
    """Return the pass of one client, as if it were alone."""
    x, y, z, logits = (whole[row] for whole in (forward.x, forward.y, forward.z, forward.logits))
    places = None if forward.places is None else forward.places.each(itemgetter(row))
    return Pass(x, y, z, logits, parameters, [level[row] for level in forward.levels], places)


class _OwnParameters(Mapping[str, Tensor]):
    """One client's own of stacked parameters, which are unbound when they are asked for: most terms look at none."""

    def __init__(self, stacked: Mapping[str, Tensor], unbound: dict[str, tuple[Tensor, ...]], client: int) -> None:
        self._stacked, self._unbound, self._client = stacked, unbound, client

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._unbound:
            self._unbound[name] = self._stacked[name].unbind()
        return self._unbound[name][self._client]

    def __iter__(self) -> Iterator[str]:
        return iter(self._stacked)

    def __len__(self) -> int:
        return len(self._stacked)


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
        self.steps.count(step)
        total = sum(values[1:], start=values[0]).sum()  # of terms that have nothing to do with each other
        return torch.autograd.grad(total, self.trainable, materialize_grads=True)

    def _cohorts(self, step: StackedStep) -> Iterator[Cohort]:
        x = self.steps.images(step) if self._span is None else self._span(step.places.device)
        places = None if self._task.experiment.data.augment else step.places
        even, apart = len(step.cohorts) == 1, len(step.cohorts) > 1 and self._mixes
        outputs = None if apart else self._forward(x, range(len(x)))
        for size, clients in step.cohorts.items():
            rows = self.steps.rows_of(clients)

            def cut(whole: Tensor, rows: Tensor = rows.device, size: int = size) -> Tensor:
                return whole if even else whole.index_select(0, rows)[:, :size]

            mine, y = cut(x), cut(step.y)
            z, logits, levels = (
                self._forward(mine, clients, None if even else rows.device) if outputs is None else outputs
            )
            if outputs is not None:
                z, logits, levels = cut(z), cut(logits), [cut(level) for level in levels]
            known = None if places is None else Places(cut(places.host, rows.host), cut(places.device))
            yield clients, rows.device, Pass(mine, y, z, logits, {}, levels, known)

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
