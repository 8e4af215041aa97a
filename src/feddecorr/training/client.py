"""The client: local training from what the server sent, by the one loop that no method repeats."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from feddecorr.collapse.representation import (
    FeatureMaps,
    Representations,
    capture_feature_maps,
    capture_representations,
    find_classifier,
)
from feddecorr.core.devices import configured, forked_randomness
from feddecorr.core.messages import Broadcast, Update
from feddecorr.core.randomness import Stream, threads
from feddecorr.core.states import State, copy_into
from feddecorr.errors import RunError
from feddecorr.models.model import freeze_statistics
from feddecorr.objective.optimizers import clip
from feddecorr.objective.terms import ClientContext, Pass, Term, Trained, combine, cross_entropy
from feddecorr.training.shards import LabelledBatch, Shard, Visits
from feddecorr.training.task import Task


class TermSums:
    """Keeps what every term was in every pass; a step has one pass, unless its method takes several.

    A value has the shape () for one client, and (clients,) for several: the first ones, because clients with fewer
    steps come later.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._passes: list[list[Tensor]] = []
        self._ends: list[int] = []  # how many passes there were after each step

    def add(self, values: Sequence[Tensor]) -> None:
        """Keep the values of one pass, in the order of the names."""
        self._passes.append([value.detach() for value in values])

    def end_step(self) -> None:
        """Begin a new step."""
        self._ends.append(len(self._passes))

    def means(self, client: int, steps: int) -> dict[str, float]:
        """Return the mean of each term over the steps that a client took, or refuse a training that diverged."""
        passes = self._ends[steps - 1]
        means = {name: total / passes for name, total in zip(self._names, self._sums[client], strict=True)}
        for name, mean in means.items():
            if not math.isfinite(mean):
                raise RunError(f"the term '{name}' became {mean} in local training; lower training.lr")
        return means

    def mean(self, steps: Sequence[int], weights: Sequence[float]) -> dict[str, float]:
        """Return the mean of each term over all clients by these weights, each of which took that many steps."""
        passes = torch.tensor([self._ends[count - 1] for count in steps])
        means = self._table.sum(0) / passes @ torch.tensor(weights, dtype=torch.float64) / sum(weights)
        return dict(zip(self._names, means.tolist(), strict=True))

    def epochs(self, client: int, lengths: Sequence[int]) -> dict[str, list[float]]:
        """Return the means of each of a client's local epochs, which have that many steps."""
        mine = self._table[..., client]
        bounds = [0, *(self._ends[count - 1] for count in accumulate(lengths))]
        each = [mine[start:stop].mean(0).tolist() for start, stop in pairwise(bounds)]
        return {name: [means[place] for means in each] for place, name in enumerate(self._names)}

    @cached_property
    def _table(self) -> Tensor:
        """All values in float64, of shape (passes, terms, clients), with zeros after a client's last step."""
        rows = [torch.stack(values) for values in self._passes]
        if rows[-1].shape != rows[0].shape:
            rows = [pad(row, (0, rows[0].shape[1] - row.shape[1])) for row in rows]
        return torch.stack(rows).cpu().double().reshape(len(rows), len(self._names), -1)

    @cached_property
    def _sums(self) -> list[list[float]]:
        sums: list[list[float]] = self._table.sum(0).T.tolist()
        return sums


BUFFERS = "buffers/"
METHOD = "method/"


class ClientError(Exception):
    """The code of one of several clients raised an error."""

    def __init__(self, client: int, error: Exception) -> None:
        super().__init__(client, error)
        self.client, self.error = client, error


class ClientRound:
    """What one client trains on, with which objective, and its update; alone or at once with others.

    Its objective and its end are the method's code, which may draw random numbers: they are to be asked for inside of
    `stream` or, of several clients, in the client's `turn`.
    """

    def __init__(self, task: Task, model: nn.Module, broadcast: Broadcast, shard: Shard, memory: State) -> None:
        shard = replace(shard, images=shard.images.to(task.device))
        self._experiment = task.experiment
        self._records_epochs = task.evaluation.epochs
        self.method = task.experiment.method
        self.client = shard.client
        self.visits = Visits(task, broadcast.round, shard)
        self.stream = Stream(task.experiment.seed, "client", broadcast.round, shard.client)
        remembered = section(memory, BUFFERS) if task.experiment.batchnorm == "local" else {}
        self.buffers = remembered or broadcast.buffers
        """What the client's network begins with, apart from the weights sent."""
        self.context = ClientContext(
            client=shard.client,
            broadcast=broadcast,
            memory=section(memory, METHOD),
            model=model,
            labels=shard.images.labels,
            classes=len(task.classes),
            images=self.visits.unchanged,
        )

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Let one of several clients act, with its own randomness, and say whose errors they are."""
        try:
            with self.stream:
                yield
        except Exception as error:  # whatever a client raises
            raise ClientError(self.client, error) from error

    @cached_property
    def terms(self) -> dict[str, Term]:
        """The client's objective."""
        own = self.method.terms(self.context)
        return combine({"cross_entropy": cross_entropy}, self._experiment.regularizers, own)

    def finish(self, trained: Trained, tally: TermSums, place: int = 0) -> tuple[Update, State]:
        """Return the update and what to remember, of the client that has this place in the tally."""
        extra, kept = self.method.finish(self.context, trained)
        memory = {METHOD + name: tensor for name, tensor in kept.items()}
        if self._experiment.batchnorm == "local":
            # Copies, because the method may remember the same tensors, and a file holds none twice.
            memory |= {BUFFERS + name: tensor.clone() for name, tensor in trained.buffers.items()}
        lengths = [len(sizes) for sizes in self.visits.sizes]
        update = Update(
            round=self.context.broadcast.round,
            client=self.client,
            examples=len(self.visits.shard),
            amount=trained.amount,
            weights=trained.weights,
            buffers=trained.buffers,
            extra=extra,
            metrics=tally.means(place, sum(lengths)),
            epochs=tally.epochs(place, lengths) if self._records_epochs else {},
        )
        for transform in self._experiment.transforms.values():
            update = transform.send(update, self.context.broadcast)
        return update, memory


def section(state: State, prefix: str) -> State:
    """Return the tensors whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}


class Alone:
    """Learns from batches of images and labels, while `watching` captures their representations."""

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
        self._maps = FeatureMaps()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Catch representations and, where the method needs them, levels: after it has made its copies of the module.

        Those would be watched, too.
        """
        with ExitStack() as stack:
            self._seen = stack.enter_context(capture_representations(self._model))
            if self._method.needs_feature_maps:
                self._maps = stack.enter_context(capture_feature_maps(self._model))
            yield

    def gradients(self, step: LabelledBatch) -> Sequence[Tensor]:
        """Return the method's gradient of a batch."""
        x, y, places = step

        def compute(term: Term | None = None) -> Sequence[Tensor]:
            logits = self._model(x)
            forward = Pass(x, y, self._seen.z, logits, self._parameters, self._maps.levels(self._seen.z), places)
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


OutBuffers = Mapping[str, State]
"""Tensors to hold the trained `weights` and `buffers`, if there are any, laid out like those of an earlier update."""

NO_OUT_BUFFERS: OutBuffers = {}

Outcome = tuple[Update, State] | Exception
"""What a client sends and what it is to remember, or what went wrong; clients that are merged have the same one."""

Step = TypeVar("Step")


class Learner(Protocol[Step]):
    """What the loop trains: one client's network, or those of several at once."""

    @property
    def stacked(self) -> bool:
        """Whether the first dimension of all that is trainable is that of the clients."""

    @property
    def trainable(self) -> Sequence[Tensor]:
        """What the steps move."""

    def watching(self) -> AbstractContextManager[None]:
        """Return what the steps are taken in."""

    @property
    def steps(self) -> Iterable[Step]:
        """All local steps."""

    def gradients(self, step: Step) -> Sequence[Tensor]:
        """Return the gradient of one step, by all that is trainable."""

    def clip(self, gradients: Sequence[Tensor], longest: float) -> Sequence[Tensor]:
        """Return gradients that are no longer than that."""


class Client:
    """Plays any client of a task, from what the server sent and what that client holds and remembers alone.

    One is built per process, with one model.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.model = task.build_model()
        self.parameters = dict(self.model.named_parameters())
        classifier = find_classifier(self.model)
        self._classifier = [parameter for parameter in classifier.parameters() if parameter.requires_grad]

    @property
    def buffers(self) -> State:
        """Those that the module has now: it may have assigned new ones in its forward pass."""
        return dict(self.model.named_buffers())

    def __call__(
        self, broadcast: Broadcast, shard: Shard, memory: State, out_buffers: OutBuffers = NO_OUT_BUFFERS
    ) -> tuple[Update, State]:
        """Train on the shard from what the server sent; return the update and what to remember."""
        part = ClientRound(self.task, self.model, broadcast, shard, memory)
        load(self.parameters, broadcast.weights, out_buffers.get("weights", {}))
        load(self.buffers, part.buffers, out_buffers.get("buffers", {}))
        self.set_mode(broadcast.round)
        with self.settings(), part.stream:
            learner = Alone(part)
            amounts = self.train(learner, broadcast.round)
            weights = {name: parameter.detach().cpu() for name, parameter in self.parameters.items()}
            buffers = {name: buffer.detach().cpu() for name, buffer in self.buffers.items()}
            return part.finish(Trained(weights, buffers, amounts[-1]), learner.tally)

    @contextmanager
    def settings(self) -> Iterator[None]:
        """Let PyTorch compute as the experiment says, and put everything back."""
        training = self.task.experiment.training
        device = configured(self.task.device, deterministic=training.deterministic)
        with threads(training.threads), device, forked_randomness():
            yield

    def set_mode(self, number: int) -> None:
        """Set what of the module is trained in this round, and whether its statistics are."""
        self.model.train()
        for parameter in self._classifier:
            parameter.requires_grad_(self.task.experiment.method.trains(number) == "network")
        if self.task.experiment.fixes_statistics(number):
            freeze_statistics(self.model)

    def train(self, learner: Learner[Step], number: int) -> list[float]:
        """Take all local steps; return what they amount to after each."""
        experiment = self.task.experiment
        training = experiment.training
        if experiment.method.own_momentum:
            training = training.model_copy(update={"momentum": 0.0})
        optimizer = training.optimizer.stepper(
            learner.trainable, training, experiment.rate_of(number), stacked=learner.stacked
        )
        amounts = []
        with learner.watching():
            for step in learner.steps:
                gradients = learner.gradients(step)
                optimizer.step(
                    gradients if training.max_grad_norm is None else learner.clip(gradients, training.max_grad_norm)
                )
                amounts.append(optimizer.amount)
        return amounts


@torch.no_grad()
def load(mine: Mapping[str, Tensor], theirs: State, out_buffers: State) -> None:
    """Give the model fresh tensors with these values, in its own memory format: what it held stays with its update."""
    on_device = out_buffers if all(tensor.device == mine[name].device for name, tensor in out_buffers.items()) else {}
    fresh = {name: on_device[name] if name in on_device else torch.empty_like(tensor) for name, tensor in mine.items()}
    copy_into(fresh.values(), (theirs[name] for name in fresh))
    for name, tensor in mine.items():
        tensor.data = fresh[name]
