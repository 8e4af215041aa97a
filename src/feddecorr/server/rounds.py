"""The rounds: sample clients, let an engine train them, validate their updates, aggregate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice

import numpy as np

from feddecorr.config.experiment import Experiment
from feddecorr.core.messages import Failure, Server, Update
from feddecorr.core.randomness import first_of_permutation, frozen_stream, named_seed, threads
from feddecorr.core.states import STATISTICS, Mean, not_finite, size_of
from feddecorr.errors import RunError
from feddecorr.models.partial import AdapterMean
from feddecorr.server.federation import Federation, RunClients
from feddecorr.server.validation import ExpectedUpdates, UpdateValidator
from feddecorr.transforms.transform import Updates


@dataclass(frozen=True)
class Round:
    """The result of a round.

    `clients` is the cohort; `missing` says whose update was not accepted and why; `notes` holds remarks on the others.
    `terms` are the means of the objective's terms, `local_terms` those of each client and local epoch, if recorded.
    `outlier` is a sentence about the client with unusually large weights, if there is one. `sent` are the bytes of all
    tensors that went to each client, `received` those that came from each.
    """

    number: int
    server: Server
    clients: list[int]
    missing: dict[int, str]
    terms: dict[str, float]
    local_terms: dict[int, dict[str, list[float]]]
    notes: dict[int, str] = field(default_factory=dict)
    outlier: str = ""
    sent: int = 0
    received: dict[int, int] = field(default_factory=dict)


def federate(
    server: Server,
    federation: Federation,
    run_clients: RunClients,
    *,
    rounds: range,
    watch: Sequence[Updates] = (),
) -> Iterator[Round]:
    """Yield these rounds, one after another; `watch` sees every valid update."""
    experiment = federation.experiment
    method = experiment.method
    for number in rounds:
        info, broadcast = federation.info(number), method.broadcast(number, server)
        clients = sample_clients(federation, number)
        validator = UpdateValidator(
            ExpectedUpdates(federation, broadcast, method.expected_extra(server, info)),
            clients,
            missing=experiment.missing,
            minimum=experiment.minimum_clients if experiment.sampling == "fixed" else 0,
            merged=federation.task.together.merge,
        )
        terms, notes, statistics = TermMeans(), TransformNotes(), STATISTICS[experiment.batchnorm]()
        adapters, received = AdapterMean(experiment.training.adapter), dict[int, int]()
        with threads(experiment.training.threads):  # the cores are for the clients
            answers: Iterable[Update | Failure] = run_clients(broadcast, clients)
            for transform in experiment.transforms.values():
                answers = transform.collude(answers, broadcast, info)
            updates = notes.before(terms.count(_count_bytes(validator.validate(answers), received)))
            for watcher in watch:
                updates = watcher(updates, broadcast, info)
            for transform in experiment.transforms.values():
                updates = transform(updates, broadcast, info)
                info = transform.round_info(info)
            updates = adapters.see(_average_buffers(notes.after(updates), statistics))
            if (some := _unless_empty(updates)) is not None:
                server = replace(method.aggregate(server, some, info), buffers=statistics.value)
                for _ in some:  # every update is validated and counted, even if the method did not read it
                    pass
                server = replace(server, weights={**server.weights, **adapters.weights()})
        refuse_infinite(server, number, validator.outlier())
        yield Round(
            number=number,
            server=server,
            clients=clients,
            missing=validator.missing,
            terms=terms.value(),
            local_terms=terms.epochs,
            notes={**validator.notes, **notes.value(",".join(experiment.transforms))},
            outlier=validator.outlier(),
            sent=size_of(broadcast.weights, broadcast.buffers, broadcast.shared),
            received=received,
        )


def refuse_infinite(server: Server, number: int, outlier: str) -> None:
    """Raise if the server state is not finite; the round is not saved."""
    for section in fields(server):
        if wrong := not_finite(getattr(server, section.name)):
            raise RunError(
                f"round {number} ended with NaN or infinity in the server's {section.name} (in {wrong[0]}): "
                f"{outlier or 'lower training.lr, or the learning rates of the method'}"
            )


def sample_clients(federation: Federation, number: int) -> list[int]:
    """Return the cohort of a round, clients with the most examples first.

    This order balances parallel workers; the server aggregates in the same order, so updates are used as they come.
    """
    experiment, sizes = federation.experiment, federation.roster.sizes
    sampled = SAMPLERS[experiment.sampling](experiment, number)
    return sorted(sampled, key=lambda client: (-int(sizes[client]), client))


def _sample_fixed(experiment: Experiment, number: int) -> list[int]:
    seed = named_seed(experiment.seed, "participation", number)
    return first_of_permutation(experiment.clients, experiment.cohort, seed=seed)


def _sample_poisson(experiment: Experiment, number: int) -> list[int]:
    stream = frozen_stream(experiment.seed, "participation", number)
    sampled: list[int] = np.flatnonzero(stream.random_sample(experiment.clients) < experiment.rate).tolist()
    return sampled


SAMPLERS = {"fixed": _sample_fixed, "poisson": _sample_poisson}
"""Sampling schemes: a fixed number of clients, or each client independently, in which case the cohort may be empty."""


def _unless_empty(updates: Iterator[Update]) -> Iterator[Update] | None:
    """Return the updates, or None if there are none, in which case the server state does not change."""
    first = list(islice(updates, 1))

    def all_of_them() -> Iterator[Update]:
        yield first.pop()  # without keeping a reference: its memory can be reused
        yield from updates

    return all_of_them() if first else None


def _count_bytes(updates: Iterable[Update], received: dict[int, int]) -> Iterator[Update]:
    """Pass the updates on, counting the bytes of what each of their clients sent."""
    for update in updates:
        size = size_of(update.weights, update.buffers, update.extra, update.evidence)
        received |= dict.fromkeys(update.clients, size)
        yield update


def _average_buffers(updates: Iterable[Update], mean: Mean) -> Iterator[Update]:
    """Average BatchNorm statistics while passing updates on, the same way for all methods.

    Running variances are averaged, never extrapolated: a momentum step could make them negative.
    """
    for update in updates:
        mean.add(update.buffers, update.examples)
        yield update


class TransformNotes:
    """Notes that transforms put on updates, and the clients whose updates they dropped."""

    def __init__(self) -> None:
        self._notes: dict[int, str] = {}
        self._dropped: dict[int, None] = {}

    def before(self, updates: Iterable[Update]) -> Iterator[Update]:
        """Pass on the updates before the transforms."""
        for update in updates:
            self._dropped |= dict.fromkeys(update.clients)
            yield update

    def after(self, updates: Iterable[Update]) -> Iterator[Update]:
        """Pass on the updates after the transforms."""
        for update in updates:
            for client in update.clients:
                self._dropped.pop(client, None)
            if update.note:
                self._notes[update.client] = update.note
            yield update

    def value(self, transforms: str) -> dict[int, str]:
        """Return the notes by client; `transforms` names the transforms in use."""
        return self._notes | dict.fromkeys(self._dropped, f"its update was dropped by transforms={transforms}")


class TermMeans:
    """The means of the objective's terms, weighted by examples, computed while updates pass."""

    def __init__(self) -> None:
        self.epochs: dict[int, dict[str, list[float]]] = {}
        self._sums: dict[str, float] = {}
        self._examples = 0

    def count(self, updates: Iterable[Update]) -> Iterator[Update]:
        """Pass the updates on, adding up their terms."""
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
