"""Clients trained one by one and side by side, in either precision, to be compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import torch
from small import simulate
from torch import Tensor

from feddecorr.core.messages import Broadcast, Update
from feddecorr.core.states import State
from feddecorr.training.batched.group import ClientGroup
from feddecorr.training.client import NO_OUT_BUFFERS, Client, Outcome

MLP = [
    "data.size=20",
    "model=mlp",
    "model.widths=[16]",
    "training.batch=8",
    "training.steps=8",
    "training.lr=0.01",
]
"""Eight steps of clients that hold different numbers of images, in batches of different sizes."""

Trained = dict[int, tuple[Update, State]]


class Neighbours:
    """The clients of a small experiment, after a first round of plain training by which they remember something."""

    def __init__(self, *words: str, wide: bool = False, first: Sequence[int] = range(4)) -> None:
        self.simulation = simulate(*MLP, *words)
        self._client = Client(self.simulation.task)
        method = self.simulation.task.experiment.method
        self._sent = method.broadcast(1, self.simulation.federation.start())
        if wide:
            self._widen()
        self._memories: dict[int, State] = defaultdict(dict)
        self._memories |= {client: memory for client, (_, memory) in self.alone(first).items()}
        self._sent = replace(self._sent, round=2)

    def _widen(self) -> None:
        """Let all of it be float64."""
        task = self.simulation.task
        narrow = task.normalize
        task.__dict__["normalize"] = lambda pixels: narrow(pixels).double()
        self._client.model.double()
        self._sent = Broadcast(
            self._sent.round, _double(self._sent.weights), _double(self._sent.buffers), _double(self._sent.shared)
        )

    def alone(self, clients: Sequence[int]) -> Trained:
        """Train one by one."""
        shards = self.simulation.shards
        return {client: self._client(self._sent, shards[client], self._memories[client]) for client in clients}

    def together(self, clients: Sequence[int]) -> Trained:
        """Train side by side, where everything has to go well."""
        trained: Trained = {}
        for client, outcome in self.outcomes(clients).items():
            if isinstance(outcome, Exception):
                raise outcome
            trained[client] = outcome
        return trained

    @cached_property
    def _group(self) -> ClientGroup:
        return ClientGroup(self._client)

    def outcomes(self, clients: Sequence[int]) -> dict[int, Outcome]:
        """Train side by side, whatever comes of it."""
        held = [(self.simulation.shards[client], self._memories[client], NO_OUT_BUFFERS) for client in clients]
        return self._group(self._sent, held)


def gap(one: Trained, other: Trained) -> float:
    """Return the greatest difference in anything that clients send or remember."""
    assert one.keys() == other.keys()
    return max(_gap(*one[client], *other[client]) for client in one)


def _gap(one: Update, memory: State, other: Update, other_memory: State) -> float:
    assert (one.client, one.examples, one.amount) == (other.client, other.examples, other.amount)
    assert one.metrics.keys() == other.metrics.keys()
    gaps = [abs(value - other.metrics[name]) for name, value in one.metrics.items()]
    states = [
        (one.weights, other.weights),
        (one.buffers, other.buffers),
        (one.extra, other.extra),
        (memory, other_memory),
    ]
    for mine, theirs in states:
        assert list(mine) == list(theirs)
        gaps += [_largest(tensor - theirs[name]) for name, tensor in mine.items()]
    return max(gaps)


def _largest(tensor: Tensor) -> float:
    return float(tensor.abs().max()) if tensor.numel() else 0.0


def _double(state: State) -> State:
    return {name: tensor.to(torch.promote_types(tensor.dtype, torch.float64)) for name, tensor in state.items()}
