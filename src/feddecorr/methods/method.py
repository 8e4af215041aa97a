"""What a federated method may change: a few hooks, each of which does nothing beyond FedAvg by default."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

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

    def laid_out(self, state: State, *, trainable: bool = False) -> list[Tensor]:
        """Return a copy of the state in the order, on the device and in the memory format of the parameters.

        Those are all, or the ones that training moves.
        """
        return [
            torch.empty_like(mine).copy_(state[name])
            for name, mine in self.model.named_parameters()
            if mine.requires_grad or not trainable
        ]


@dataclass(frozen=True)
class Trained:
    """What local training ends with; `amount` is the sum of the steps' learning rates (see `Update`)."""

    weights: State
    buffers: State
    amount: float


class Compute(Protocol):
    """Gives the gradient of the current batch at the current weights, as often as it is asked."""

    def __call__(self, term: Term | None = None) -> Sequence[Tensor]:
        """Return that of the objective, which is recorded, or of another term."""


GradientRule = Callable[[Compute], Sequence[Tensor]]
"""What makes the gradient of a local step."""


class Method(Kind):
    """A federated method; without any hook of its own it is FedAvg."""

    needs_sgd: ClassVar[bool] = False
    """Whether the method takes a client's drift for a sum of gradients, as no other optimizer makes it."""

    needs_levels: ClassVar[bool] = False
    """Whether its terms look at what the network makes on the way to the representation."""

    may_forget: ClassVar[bool] = False
    """Whether a client that lost its memory may begin anew. Not where the server holds a share of what was lost."""

    term_names: ClassVar[tuple[str, ...] | None] = None
    """The names of what `terms` adds: a server takes no others of its clients. None: it takes any."""

    def start(self, server: Server, info: RoundInfo) -> Server:
        """Prepare what the server shares and remembers; `info` tells the seed and the clients' sizes."""
        return server

    def broadcast(self, number: int, server: Server) -> Broadcast:
        """Return what the server sends to every client of a round."""
        return Broadcast.of(number, server)

    def terms(self, local: Local) -> Mapping[str, Term | None]:
        """Return terms to add to the local objective, or to replace one of the same name; None takes it away."""
        return {}

    def gradient(self, local: Local) -> GradientRule:
        """Return the rule that makes the gradient of every local step of a round."""
        return lambda compute: compute()

    def finish(self, local: Local, trained: Trained) -> tuple[State, State]:
        """Return (extra for the server, memory for itself) after local training."""
        return {}, {}

    def expected_extra(self, server: Server) -> State:
        """Return what the extra of an update looks like (names, shapes, types): anything else is refused."""
        return {}

    def step(self, server: Server, updates: Iterable[Update], info: RoundInfo) -> Server:
        """Move the server, taking each update once as it comes; whoever needs no more than their mean has `move`."""
        return self.move(server, mean_weights(updates), info)

    def move(self, server: Server, mean: State, info: RoundInfo) -> Server:
        """Move the server, given the mean of the clients' weights."""
        return replace(server, weights=mean)

    @classmethod
    def needs_each(cls) -> bool:
        """Tell whether anything but the mean of the clients' weights matters, to the server or to a client's memory."""
        return cls.step is not Method.step or cls.finish is not Method.finish

    @classmethod
    def known_terms(cls) -> tuple[str, ...] | None:
        """Return the names that it adds to an objective; None if it has terms and does not tell their names."""
        owner = next(each for each in cls.__mro__ if "terms" in vars(each))
        return () if owner is Method else vars(owner).get("term_names")


def mean_weights(updates: Iterable[Update]) -> State:
    """Return the mean of the clients' weights by their numbers of examples, in one pass."""
    mean = Mean()
    for update in updates:
        mean.add(update.weights, update.examples)
    return mean.value
