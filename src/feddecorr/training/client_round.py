"""One client's part in a round, from what it was sent, holds and remembers, to its update."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

from torch import nn

from feddecorr.core.messages import Broadcast, Update
from feddecorr.core.randomness import Stream
from feddecorr.core.states import State
from feddecorr.objective.terms import ClientContext, Term, Trained, combine, cross_entropy
from feddecorr.training.batches import Visits
from feddecorr.training.shards import Shard
from feddecorr.training.task import Task
from feddecorr.training.term_values import TermSums

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
        self._experiment = task.experiment
        self._records_epochs = task.evaluation.epochs
        self.method = task.experiment.method
        self.client = shard.client
        self.visits = Visits(task, broadcast.round, shard)
        self.stream = Stream(task.experiment.seed, "client", broadcast.round, shard.client)
        remembered = section(memory, BUFFERS) if task.experiment.batchnorm == "local" else {}
        self.buffers = remembered or broadcast.buffers
        """What the client's network begins with besides the weights sent."""
        self.context = ClientContext(
            client=shard.client,
            broadcast=broadcast,
            memory=section(memory, METHOD),
            model=model,
            labels=shard.images.labels,
            classes=len(task.classes),
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
