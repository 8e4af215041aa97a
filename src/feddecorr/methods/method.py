"""What a federated method may change: a few hooks, each of which does nothing beyond FedAvg by default."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from feddecorr.messages import Broadcast, Server, State, Update
from feddecorr.objective import Term
from feddecorr.settings.kinds import Kind


@dataclass(frozen=True)
class Local:
    """What a method's client hooks see: the client, what it was sent and what it remembers."""

    client: int
    broadcast: Broadcast
    memory: State
    model: nn.Module
    labels: Tensor
    classes: int
    lr: float

    @property
    def counts(self) -> Tensor:
        """The number of the client's examples of each class, as floats beside the model."""
        counts = torch.bincount(self.labels, minlength=self.classes)
        return counts.to(next(self.model.parameters()))

    def laid_out(self, state: State) -> list[Tensor]:
        """Return a copy of the state in the order, on the device and in the memory format of the parameters."""
        return [torch.empty_like(mine).copy_(state[name]) for name, mine in self.model.named_parameters()]


@dataclass(frozen=True)
class Trained:
    """What local training ends with; `amount` is the number of steps counted as plain SGD steps (see `Update`)."""

    weights: State
    buffers: State
    amount: float


class Method(Kind):
    """A federated method; without any hook of its own it is FedAvg."""

    def start(self, server: Server, sizes: Sequence[int]) -> Server:
        """Prepare what the server shares and remembers; `sizes` are the numbers of examples of all clients."""
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

    def step(self, server: Server, updates: Iterable[Update]) -> Server:
        """Move the server, taking each update once as it comes."""
        return replace(server, weights=mean_weights(updates))


def mean_weights(updates: Iterable[Update]) -> State:
    """Return the mean of the clients' weights by their numbers of examples, in one pass."""
    mean = Mean()
    for update in updates:
        mean.add(update.weights, update.examples)
    return mean.value


def extrapolate(start: State, mean: State, factor: float) -> State:
    """Return start + factor·(mean − start), written so that a factor of 1 gives the mean to the last bit."""
    return {name: torch.add(mean[name], mean[name] - start[name], alpha=factor - 1) for name in start}


class Mean:
    """A running weighted mean of states.

    Each state is mixed in by its share of the weight so far. So the mean of one is that one, and the mean of
    equals is their value, to the last bit; nothing is held but the mean.
    """

    def __init__(self) -> None:
        self.value: State = {}
        self.weight = 0.0

    def add(self, state: State, weight: float) -> None:
        """Mix in one state; of integer tensors (BatchNorm's counters) the largest is kept."""
        self.weight += weight
        if not self.value:
            self.value = {name: tensor.clone() for name, tensor in state.items()}
            return
        pairs = [(self.value[name], tensor) for name, tensor in state.items()]
        for mine, theirs in pairs:
            if not mine.is_floating_point():
                torch.maximum(mine, theirs, out=mine)
        floats = [pair for pair in pairs if pair[0].is_floating_point()]
        if floats:
            mine_all, theirs_all = map(list, zip(*floats, strict=True))
            torch._foreach_lerp_(mine_all, theirs_all, weight / self.weight)
