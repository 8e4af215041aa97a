"""The rounds: draw clients, let an engine train them, let the method move the server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import torch

from feddecorr.engines.table import RunClients
from feddecorr.federation import Federation
from feddecorr.messages import Broadcast, Server, Update
from feddecorr.methods import Mean
from feddecorr.randomness import generator
from feddecorr.threads import threads


@dataclass(frozen=True)
class Round:
    """What came out of a round: the server after it, who took part, and the mean of each objective term."""

    number: int
    server: Server
    clients: list[int]
    terms: dict[str, float]


def federate(server: Server, federation: Federation, run_clients: RunClients, *, first: int = 1) -> Iterator[Round]:
    """Yield the rounds from `first` to the experiment's last."""
    experiment = federation.experiment
    for number in range(first, experiment.rounds + 1):
        clients = draw_clients(federation, number)
        broadcast = Broadcast(number, server.weights, server.buffers, server.shared)
        passing = Passing()
        with threads(experiment.training.threads):  # the cores are for the clients
            moved = experiment.method.step(server, passing.watch(run_clients(broadcast, clients)))
        server = replace(moved, buffers=passing.buffers.value)
        yield Round(number, server, clients, passing.terms())


def draw_clients(federation: Federation, number: int) -> list[int]:
    """Return the clients of a round, those with the most examples first.

    That order keeps parallel workers evenly busy, and since the server takes updates in it too, they can be
    used as they come.
    """
    experiment = federation.experiment
    count = max(1, round(experiment.participation * experiment.clients))
    stream = generator(experiment.seed, "participation", number)
    drawn: list[int] = torch.randperm(experiment.clients, generator=stream)[:count].tolist()
    return sorted(drawn, key=lambda client: (-len(federation.parts[client]), client))


class Passing:
    """Watches updates on their way to the method: BatchNorm statistics are averaged the same for all methods.

    Running variances are averaged, never extrapolated: a momentum step can make them negative.
    """

    def __init__(self) -> None:
        self.buffers = Mean()
        self._sums: dict[str, float] = {}
        self._examples = 0

    def watch(self, updates: Iterable[Update]) -> Iterator[Update]:
        """Pass the updates on."""
        for update in updates:
            self.buffers.add(update.buffers, update.examples)
            self._examples += update.examples
            for name, value in update.metrics.items():
                self._sums[name] = self._sums.get(name, 0.0) + value * update.examples
            yield update

    def terms(self) -> dict[str, float]:
        """Return the mean of each term of the local objective, by examples."""
        return {name: total / self._examples for name, total in self._sums.items()}
