"""The client: the one training loop, which every engine calls and no method repeats."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from feddecorr.data.augment.changes import augment
from feddecorr.errors import RunError
from feddecorr.federation import Federation
from feddecorr.messages import Broadcast, State, Update
from feddecorr.methods import Local, Trained
from feddecorr.objective import Pass, Term, cross_entropy
from feddecorr.optimizers import SGD
from feddecorr.randomness import generator, seeded
from feddecorr.representation import capture_representations
from feddecorr.threads import threads

BUFFERS = "buffers/"
METHOD = "method/"
NO_ROOM: Mapping[str, State] = {}


class Client:
    """Plays any client of the federation; one is built per process, with one model."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        self.model = federation.build_model()
        self.parameters = dict(self.model.named_parameters())
        self.buffers = dict(self.model.named_buffers())

    def __call__(
        self, broadcast: Broadcast, client: int, memory: State, room: Mapping[str, State] = NO_ROOM
    ) -> tuple[Update, State]:
        """Train as that client from what the server sent; return the update and what to remember.

        In `room` may be tensors to hold the trained `weights` and `buffers`, laid out like those of an earlier update.
        """
        experiment = self.federation.experiment
        remembered = _section(memory, BUFFERS) if experiment.buffers == "local" else {}
        _load(self.parameters, broadcast.weights, room.get("weights", {}))
        _load(self.buffers, remembered or broadcast.buffers, room.get("buffers", {}))
        local = Local(
            client=client,
            broadcast=broadcast,
            memory=_section(memory, METHOD),
            model=self.model,
            labels=self.federation.dataset.train.labels[self.federation.parts[client]],
            classes=len(self.federation.dataset.classes),
            lr=experiment.training.lr,
        )
        seed = experiment.seed
        with threads(experiment.training.threads), seeded(seed, "client", broadcast.round, client):
            amount, metrics = self._train(local)
        weights = {name: parameter.detach().cpu() for name, parameter in self.parameters.items()}
        buffers = {name: buffer.detach().cpu() for name, buffer in self.buffers.items()}
        extra, kept = experiment.method.finish(local, Trained(weights, buffers, amount))
        memory = {METHOD + name: tensor for name, tensor in kept.items()}
        if experiment.buffers == "local":
            # Copies, because the method may remember the same tensors, and a file holds none twice.
            memory |= {BUFFERS + name: tensor.clone() for name, tensor in buffers.items()}
        return Update(client, len(local.labels), amount, weights, buffers, extra, metrics), memory

    def _train(self, local: Local) -> tuple[float, dict[str, float]]:
        experiment = self.federation.experiment
        terms: dict[str, Term] = {
            "cross_entropy": cross_entropy,
            **experiment.regularizers,
            **experiment.method.terms(local),
        }
        training = experiment.training
        parameters = [each for each in self.parameters.values() if each.requires_grad]
        optimizer = SGD(parameters, lr=training.lr, momentum=training.momentum, weight_decay=training.weight_decay)
        tally = Tally(terms)
        self.model.train()
        with capture_representations(self.model) as seen:
            for x, y in self._batches(local):

                def compute(x: Tensor = x, y: Tensor = y) -> Sequence[Tensor]:
                    logits = self.model(x)
                    forward = Pass(x, y, seen.z, logits, self.parameters)
                    loss = tally.total(forward)
                    return torch.autograd.grad(loss, parameters, materialize_grads=True)

                optimizer.step(experiment.method.gradient(local, compute))
        return optimizer.amount, tally.means(local)

    def _batches(self, local: Local) -> Iterator[tuple[Tensor, Tensor]]:
        dataset, training = self.federation.dataset, self.federation.experiment.training
        changes = self.federation.experiment.data.augment
        indices = torch.from_numpy(self.federation.parts[local.client])
        seed, now = self.federation.experiment.seed, local.broadcast.round
        for epoch in range(training.epochs):
            order = torch.randperm(len(indices), generator=generator(seed, "batches", now, local.client, epoch))
            chance = generator(seed, "augmentation", now, local.client, epoch)
            for batch in split_batches(indices[order], training.batch):
                pixels = augment(dataset.train.pixels.index_select(0, batch), changes, chance)
                x = dataset.normalize(pixels.to(training.device))
                yield x, dataset.train.labels[batch].to(training.device)


class Tally:
    """Adds the terms up and keeps the mean of each over the local steps."""

    def __init__(self, terms: Mapping[str, Term]) -> None:
        self.terms = terms
        self.passes: list[list[Tensor]] = []

    def total(self, forward: Pass) -> Tensor:
        """Return the objective of one pass."""
        values = [term(forward) for term in self.terms.values()]
        self.passes.append([value.detach() for value in values])
        return sum(values[1:], start=values[0])

    def means(self, local: Local) -> dict[str, float]:
        """Return the mean of each term, or refuse to hand on a model that diverged."""
        table = torch.stack([torch.stack(values) for values in self.passes])
        means = dict(zip(self.terms, table.double().mean(0).tolist(), strict=True))
        for name, mean in means.items():
            if not math.isfinite(mean):
                raise RunError(
                    f"the term '{name}' became {mean} in local training; lower training.lr (now {local.lr:g})"
                )
        return means


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
    fresh = [on_device[name] if name in on_device else torch.empty_like(tensor) for name, tensor in mine.items()]
    if fresh:
        torch._foreach_copy_(fresh, [theirs[name] for name in mine])
    for tensor, values in zip(mine.values(), fresh, strict=True):
        tensor.data = values
