"""What a federated method may change: a few hooks, each of which does nothing beyond FedAvg by default."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from feddecorr.messages import Broadcast, RoundInfo, Server, Update
from feddecorr.objective import Term
from feddecorr.settings.kinds import Kind
from feddecorr.states import Mean, State


@dataclass(frozen=True)
class Local:
    """What a method's client hooks see: the client, what it was sent and what it remembers."""

    client: int
    broadcast: Broadcast
    memory: State
    model: nn.Module
    labels: Tensor
    classes: int

    @property
    def counts(self) -> Tensor:
        """The number of the client's examples of each class, as floats beside the model."""
        counts = torch.bincount(self.labels, minlength=self.classes)
        return counts.to(next(self.model.parameters()))

    @property
    def trainable(self) -> list[Tensor]:
        """The parameters that training moves, in the order of their gradients: not those of frozen layers."""
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    def laid_out(self, state: State) -> list[Tensor]:
        """Return a copy of the state in the order, on the device and in the memory format of the parameters."""
        return [torch.empty_like(mine).copy_(state[name]) for name, mine in self.model.named_parameters()]


@dataclass(frozen=True)
class Trained:
    """What local training ends with; `amount` is the sum of the steps' learning rates (see `Update`)."""

    weights: State
    buffers: State
    amount: float


class Method(Kind):
    """A federated method; without any hook of its own it is FedAvg."""

    needs_sgd: ClassVar[bool] = False
    """Whether the method takes a client's drift for a sum of gradients, as no other optimizer makes it."""

    def start(self, server: Server, info: RoundInfo) -> Server:
        """Prepare what the server shares and remembers; `info` tells the seed and the clients' sizes."""
        return server

    def terms(self, local: Local) -> Mapping[str, Term]:
        """Return terms to add to the local objective, or to replace one of the same name."""
        return {}

    def gradient(self, local: Local, compute: Callable[[], Sequence[Tensor]]) -> Sequence[Tensor]:
        """Return the gradient of one step; `compute` gives it at the current parameters, as often as asked."""
        return compute()

    def finish(self, local: Local, trained: Trained) -> tuple[State, State]:
        """Return (extra for the server, memory for itself) after local training."""
        return {}, {}

    def expected_extra(self, server: Server) -> State:
        """Return what the extra of an update looks like (names, shapes, types): anything else is refused."""
        return {}

    def step(self, server: Server, updates: Iterable[Update], info: RoundInfo) -> Server:
        """Move the server, taking each update once as it comes."""
        return replace(server, weights=mean_weights(updates))


def mean_weights(updates: Iterable[Update]) -> State:
    """Return the mean of the clients' weights by their numbers of examples, in one pass."""
    mean = Mean()
    for update in updates:
        mean.add(update.weights, update.examples)
    return mean.value
