"""The client: local training from what the server sent, by the one loop that no method repeats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from feddecorr.core.messages import Broadcast, Update
from feddecorr.core.states import State, copy_into
from feddecorr.core.threads import threads
from feddecorr.models.model import freeze_statistics
from feddecorr.objective.context import Trained
from feddecorr.training.client_round import ClientRound
from feddecorr.training.shards import Shard
from feddecorr.training.single import Alone
from feddecorr.training.task import Task

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

    @property
    def buffers(self) -> State:
        """Those that the module has now: it may have assigned new ones in its forward pass."""
        return dict(self.model.named_buffers())

    def __call__(
        self, broadcast: Broadcast, shard: Shard, memory: State, out_buffers: OutBuffers = NO_OUT_BUFFERS
    ) -> tuple[Update, State]:
        """Train on the shard from what the server sent; return the update and what to remember."""
        experiment = self.task.experiment
        part = ClientRound(self.task, self.model, broadcast, shard, memory)
        load(self.parameters, broadcast.weights, out_buffers.get("weights", {}))
        load(self.buffers, part.buffers, out_buffers.get("buffers", {}))
        self.set_mode(broadcast.round)
        with threads(experiment.training.threads), torch.random.fork_rng(), part.stream:
            learner = Alone(part)
            amounts = self.train(learner, broadcast.round)
            weights = {name: parameter.detach().cpu() for name, parameter in self.parameters.items()}
            buffers = {name: buffer.detach().cpu() for name, buffer in self.buffers.items()}
            return part.finish(Trained(weights, buffers, amounts[-1]), learner.tally)

    def set_mode(self, number: int) -> None:
        """Set the module to training, with fixed statistics if they are in this round."""
        self.model.train()
        if self.task.experiment.fixes_statistics(number):
            freeze_statistics(self.model)

    def train(self, learner: Learner[Step], number: int) -> list[float]:
        """Take all local steps; return what they amount to after each."""
        training = self.task.experiment.training
        optimizer = training.optimizer.stepper(
            learner.trainable, training, training.rate(number), stacked=learner.stacked
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
