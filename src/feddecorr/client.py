"""The client: the one training loop, which every engine calls and no method repeats."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack

import torch
from torch import Tensor

from feddecorr.batchnorm import fix_statistics
from feddecorr.data.augment.changes import augment
from feddecorr.errors import RunError
from feddecorr.federation import Shard, Task
from feddecorr.levels import Levels, capture_levels
from feddecorr.messages import Broadcast, Update
from feddecorr.methods import Local, Trained
from feddecorr.objective import Pass, Term, combine, cross_entropy
from feddecorr.optimizers import OPTIMIZERS, clip
from feddecorr.randomness import generator, seeded
from feddecorr.representation import capture_representations
from feddecorr.states import State, copy_into
from feddecorr.threads import threads

BUFFERS = "buffers/"
METHOD = "method/"
NO_ROOM: Mapping[str, State] = {}

Batch = tuple[Tensor, Tensor, Tensor | None]
"""Images, labels and, where images come as they are, their places among the client's own."""


class Client:
    """Plays any client of a task, from what the server sent and what that client holds and remembers alone.

    One is built per process, with one model.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.model = task.build_model()
        self.parameters = dict(self.model.named_parameters())
        self.buffers = dict(self.model.named_buffers())

    def __call__(
        self, broadcast: Broadcast, shard: Shard, memory: State, room: Mapping[str, State] = NO_ROOM
    ) -> tuple[Update, State]:
        """Train on the shard from what the server sent; return the update and what to remember.

        In `room` may be tensors to hold the trained `weights` and `buffers`, laid out like those of an earlier update.
        """
        experiment = self.task.experiment
        remembered = _section(memory, BUFFERS) if experiment.buffers == "local" else {}
        _load(self.parameters, broadcast.weights, room.get("weights", {}))
        _load(self.buffers, remembered or broadcast.buffers, room.get("buffers", {}))
        local = Local(
            client=shard.client,
            broadcast=broadcast,
            memory=_section(memory, METHOD),
            model=self.model,
            labels=shard.images.labels,
            classes=len(self.task.classes),
        )
        with (
            threads(experiment.training.threads),
            seeded(experiment.seed, "client", broadcast.round, shard.client),
        ):
            amount, tally = self._train(local, shard)
            weights = {name: parameter.detach().cpu() for name, parameter in self.parameters.items()}
            buffers = {name: buffer.detach().cpu() for name, buffer in self.buffers.items()}
            extra, kept = experiment.method.finish(local, Trained(weights, buffers, amount))
        memory = {METHOD + name: tensor for name, tensor in kept.items()}
        if experiment.buffers == "local":
            # Copies, because the method may remember the same tensors, and a file holds none twice.
            memory |= {BUFFERS + name: tensor.clone() for name, tensor in buffers.items()}
        update = Update(
            round=broadcast.round,
            client=shard.client,
            examples=len(shard),
            amount=amount,
            weights=weights,
            buffers=buffers,
            extra=extra,
            metrics=tally.means(),
            epochs=tally.epochs() if experiment.evaluation.epochs else {},
        )
        return update, memory

    def _train(self, local: Local, shard: Shard) -> tuple[float, Tally]:
        experiment = self.task.experiment
        training, method = experiment.training, experiment.method
        terms = combine({"cross_entropy": cross_entropy}, experiment.regularizers, method.terms(local))
        trainable, gradient = local.trainable, method.gradient(local)
        optimizer = OPTIMIZERS[training.optimizer](trainable, training, training.rate(local.broadcast.round))
        tally = Tally(terms)
        self.model.train()
        if experiment.fixes_statistics(local.broadcast.round):
            fix_statistics(self.model)
        with ExitStack() as stack:
            seen = stack.enter_context(capture_representations(self.model))
            levels = stack.enter_context(capture_levels(self.model)) if method.needs_levels else Levels()
            for batches in self._epochs(local, shard):
                tally.begin_epoch()
                for x, y, places in batches:

                    def compute(
                        term: Term | None = None, x: Tensor = x, y: Tensor = y, places: Tensor | None = places
                    ) -> Sequence[Tensor]:
                        logits = self.model(x)
                        forward = Pass(x, y, seen.z, logits, self.parameters, levels.pooled, places)
                        value = tally.total(forward) if term is None else term(forward)
                        return torch.autograd.grad(value, trainable, materialize_grads=True)

                    gradients = gradient(compute)
                    optimizer.step(gradients if training.clip is None else clip(gradients, training.clip))
        return optimizer.amount, tally

    def _epochs(self, local: Local, shard: Shard) -> Iterator[Iterator[Batch]]:
        """Yield the batches of each local epoch."""
        experiment = self.task.experiment
        training, images = experiment.training, shard.images

        def batches(epoch: int, steps: int) -> Iterator[Batch]:
            place = local.broadcast.round, local.client, epoch
            order = torch.randperm(len(shard), generator=generator(experiment.seed, "batches", *place))
            chance = generator(experiment.seed, "augmentation", *place)
            for batch in split_batches(order, training.batch)[:steps]:
                pixels = augment(images.pixels.index_select(0, batch), experiment.data.augment, chance)
                x, y = self.task.normalize(pixels.to(training.device)), images.labels[batch].to(training.device)
                yield x, y, None if experiment.data.augment else batch

        whole = len(split_batches(torch.arange(len(shard)), training.batch))
        for epoch, steps in enumerate(training.steps_per_epoch(whole)):
            yield batches(epoch, steps)


class Tally:
    """Adds the terms up and keeps the mean of each over the local steps."""

    def __init__(self, terms: Mapping[str, Term]) -> None:
        self.terms = terms
        self._passes: list[list[Tensor]] = []
        self._begun: list[int] = []

    def begin_epoch(self) -> None:
        """Let the next passes belong to a new local epoch."""
        self._begun.append(len(self._passes))

    def total(self, forward: Pass) -> Tensor:
        """Return the objective of one pass."""
        values = [term(forward) for term in self.terms.values()]
        self._passes.append([value.detach() for value in values])
        return sum(values[1:], start=values[0])

    def means(self) -> dict[str, float]:
        """Return the mean of each term, or refuse to hand on a model that diverged."""
        means = self._means(0, None)
        for name, mean in means.items():
            if not math.isfinite(mean):
                raise RunError(f"the term '{name}' became {mean} in local training; lower training.lr")
        return means

    def epochs(self) -> dict[str, list[float]]:
        """Return the means of each local epoch."""
        each = [self._means(*bounds) for bounds in zip(self._begun, [*self._begun[1:], None], strict=True)]
        return {name: [means[name] for means in each] for name in self.terms}

    def _means(self, start: int, stop: int | None) -> dict[str, float]:
        table = torch.stack([torch.stack(values) for values in self._passes[start:stop]])
        return dict(zip(self.terms, table.double().mean(0).tolist(), strict=True))


def split_batches(order: Tensor, size: int) -> list[Tensor]:
    """Cut into batches; a last batch of one, of which BatchNorm knows no variance, joins the one before it."""
    batches = list(order.split(size))
    if len(batches) > 1 and len(batches[-1]) == 1:
        batches[-2:] = [torch.cat(batches[-2:])]
    return batches


def _section(state: State, prefix: str) -> State:
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}


@torch.no_grad()
def _load(mine: Mapping[str, Tensor], theirs: State, room: State) -> None:
    """Give the model fresh tensors with these values, in its own memory format: what it held stays with its update."""
    on_device = room if all(tensor.device == mine[name].device for name, tensor in room.items()) else {}
    fresh = {name: on_device[name] if name in on_device else torch.empty_like(tensor) for name, tensor in mine.items()}
    copy_into(fresh.values(), (theirs[name] for name in fresh))
    for name, tensor in mine.items():
        tensor.data = fresh[name]
