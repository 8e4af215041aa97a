"""What travels between server and clients, and what the server holds: plain frozen values."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from feddecorr.core.states import State
from feddecorr.errors import explain_refusal


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

    @classmethod
    def of(cls, number: int, server: Server) -> Broadcast:
        """Return what the server sends in that round."""
        return cls(number, server.weights, server.buffers, server.shared)


@dataclass(frozen=True)
class Update:
    """What a client sends back.

    `weights` are the trained weights themselves, not their change: the mean of one client is then that
    client, to the last bit. `amount` is the sum of the learning rates of the local steps, counted as plain SGD
    steps: under momentum, a gradient keeps acting in later steps (FedNova's ‖a‖₁, times the learning rate).
    `metrics` are the means of the objective's terms, `epochs` those of each local epoch where they are recorded.
    `note` is for the run's record: what a reader has to know of this update. `evidence` is what the client found out
    about its model on images of its own, where the server has none. `merged_clients` are further clients, where
    the update is the mean of several by their numbers of examples, of which `examples` is the sum.
    """

    round: int
    client: int
    examples: int
    amount: float
    weights: State
    buffers: State
    extra: State
    metrics: dict[str, float]
    epochs: dict[str, list[float]] = field(default_factory=dict)
    note: str = ""
    evidence: State = field(default_factory=dict)
    merged_clients: list[int] = field(default_factory=list)

    @property
    def clients(self) -> tuple[int, ...]:
        """All clients whose update it is."""
        return self.client, *self.merged_clients


@dataclass(frozen=True)
class Failure:
    """What an engine gives where a client's update should be: why there is none, and the client's own traceback."""

    round: int
    client: int
    cause: str
    trace: str = ""

    @property
    def clients(self) -> tuple[int, ...]:
        """The client alone."""
        return (self.client,)


@dataclass(frozen=True)
class RoundInfo:
    """What the server's hooks are told by name: the round, the run's seed, and every client's number of examples.

    Before the first round, `round` is 0. `rate` is the share of the clients that a round draws, perhaps on average.
    """

    round: int
    seed: int
    sizes: NDArray[np.int64]
    rate: float = 1.0

    @property
    def cohort(self) -> int:
        """The number of clients that a round draws, perhaps on average."""
        return round(self.rate * len(self.sizes))

    @property
    def examples(self) -> int:
        """The examples of all clients together."""
        return int(self.sizes.sum())


def failure(number: int, client: int, error: Exception) -> Failure:
    """Return what is known of an error in a client's code."""
    said = explain_refusal(error) if isinstance(error, OSError) else str(error)
    return Failure(number, client, f"{type(error).__name__}: {said}", "".join(traceback.format_exception(error)))
