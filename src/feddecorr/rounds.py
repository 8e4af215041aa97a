"""The rounds: draw clients, let an engine train them, check what they send, let the method move the server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from feddecorr.engines.engine import RunClients
from feddecorr.federation import Federation
from feddecorr.intake import Intake
from feddecorr.messages import Server, Update
from feddecorr.randomness import first_of_permutation, named_seed
from feddecorr.states import STATISTICS, Mean
from feddecorr.threads import threads
from feddecorr.transforms import Updates


@dataclass(frozen=True)
class Round:
    """What came out of a round.

    `clients` were asked; `missing` says of whom no update was taken, and why, `notes` what is to be known of others.
    `terms` are the means of the objective's terms, `local_terms` those of each client and local epoch, where they
    are recorded.
    """

    number: int
    server: Server
    clients: list[int]
    missing: dict[int, str]
    terms: dict[str, float]
    local_terms: dict[int, dict[str, list[float]]]
    notes: dict[int, str] = field(default_factory=dict)


def federate(
    server: Server, federation: Federation, run_clients: RunClients, *, first: int = 1, watch: Sequence[Updates] = ()
) -> Iterator[Round]:
    """Yield the rounds from `first` to the experiment's last; `watch` sees every update that was taken."""
    experiment = federation.experiment
    method = experiment.method
    for number in range(first, experiment.rounds + 1):
        info, broadcast = federation.info(number), method.broadcast(number, server)
        clients = draw_clients(federation, number)
        intake = Intake(
            broadcast,
            clients,
            extra=method.expected_extra(server),
            missing=experiment.missing,
            minimum=experiment.minimum_clients,
            merged=federation.task.together.merge,
        )
        terms, statistics = TermMeans(), STATISTICS[experiment.buffers]()
        with threads(experiment.training.threads):  # the cores are for the clients
            updates = terms.count(intake.take(run_clients(broadcast, clients)))
            changes: list[Updates] = [*watch, *experiment.transforms.values()]
            for change in changes:
                updates = change(updates, broadcast, info)
            updates = _average_buffers(updates, statistics)
            moved = method.step(server, updates, info)
            for _ in updates:  # whatever the method did not read: every client's update is taken and counted
                pass
        server = replace(moved, buffers=statistics.value)
        yield Round(number, server, clients, intake.missing, terms.value(), terms.epochs, intake.notes)


def draw_clients(federation: Federation, number: int) -> list[int]:
    """Return the clients of a round, those with the most examples first.

    That order keeps parallel workers evenly busy, and since the server takes updates in it too, they can be
    used as they come.
    """
    experiment, sizes = federation.experiment, federation.roster.sizes
    seed = named_seed(experiment.seed, "participation", number)
    drawn = first_of_permutation(experiment.clients, experiment.cohort, seed=seed)
    return sorted(drawn, key=lambda client: (-int(sizes[client]), client))


def _average_buffers(updates: Iterable[Update], mean: Mean) -> Iterator[Update]:
    """Average BatchNorm's statistics as updates pass, the same for all methods.

    Running variances are averaged, never extrapolated: a momentum step can make them negative.
    """
    for update in updates:
        mean.add(update.buffers, update.examples)
        yield update


class TermMeans:
    """The means of the objective's terms, by examples, as updates pass."""

    def __init__(self) -> None:
        self.epochs: dict[int, dict[str, list[float]]] = {}
        self._sums: dict[str, float] = {}
        self._examples = 0

    def count(self, updates: Iterable[Update]) -> Iterator[Update]:
        """Pass the updates on."""
        for update in updates:
            self._examples += update.examples
            for name, value in update.metrics.items():
                self._sums[name] = self._sums.get(name, 0.0) + value * update.examples
            if update.epochs:
                self.epochs[update.client] = update.epochs
            yield update

    def value(self) -> dict[str, float]:
        """Return the mean of each term."""
        return {name: total / self._examples for name, total in self._sums.items()}
