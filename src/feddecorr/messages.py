"""What travels between server and clients, and what the server holds: plain frozen values."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

State = dict[str, Tensor]
"""Tensors by name."""


@dataclass(frozen=True)
class Server:
    """All that the server knows between two rounds: `shared` travels to the clients, `memory` stays."""

    weights: State
    buffers: State
    shared: State = field(default_factory=dict)
    memory: State = field(default_factory=dict)


@dataclass(frozen=True)
class Broadcast:
    """What the server sends to every client of a round."""

    round: int
    weights: State
    buffers: State
    shared: State


@dataclass(frozen=True)
class Update:
    """What a client sends back.

    `weights` are the trained weights themselves, not their change: the mean of one client is then that
    client, to the last bit. `amount` is the number of local steps counted as plain SGD steps: under
    momentum, a gradient goes on acting in later steps (FedNova's ‖a‖₁).
    """

    client: int
    examples: int
    amount: float
    weights: State
    buffers: State
    extra: State
    metrics: dict[str, float]
