"""The rounds: draw clients, let an engine train them, check what they send, let the method move the server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice

import numpy as np

from feddecorr.config.experiment import Experiment
from feddecorr.core.messages import Failure, Server, Update
from feddecorr.core.randomness import first_of_permutation, frozen_stream, named_seed
from feddecorr.core.states import STATISTICS, Mean, not_finite
from feddecorr.core.threads import threads
from feddecorr.errors import RunError
from feddecorr.server.federation import Federation, RunClients
from feddecorr.server.intake import UpdateValidator
from feddecorr.server.validation import Expected
from feddecorr.transforms import Updates


@dataclass(frozen=True)
class Round:
    """What came out of a round.

    `clients` were asked; `missing` says of whom no update was taken, and why, `notes` what is to be known of others.
    `terms` are the means of the objective's terms, `local_terms` those of each client and local epoch, where they
    are recorded. `outlier` is a sentence about the client that stands out by the size of its weights, if one does.
    """

    number: int
    server: Server
    clients: list[int]
    missing: dict[int, str]
    terms: dict[str, float]
    local_terms: dict[int, dict[str, list[float]]]
    notes: dict[int, str] = field(default_factory=dict)
    outlier: str = ""


def federate(
    server: Server,
    federation: Federation,
    run_clients: RunClients,
    *,
    rounds: range,
    watch: Sequence[Updates] = (),
) -> Iterator[Round]:
    """Yield these rounds, one after another; `watch` sees every update that was taken."""
    experiment = federation.experiment
    method = experiment.method
    for number in rounds:
        info, broadcast = federation.info(number), method.broadcast(number, server)
        clients = draw_clients(federation, number)
        validator = UpdateValidator(
            Expected(federation, broadcast, method.expected_extra(server)),
            clients,
            missing=experiment.missing,
            minimum=experiment.minimum_clients if experiment.sampling == "fixed" else 0,
            merged=federation.task.together.merge,
        )
        terms, remarks, statistics = TermMeans(), Remarks(), STATISTICS[experiment.batchnorm]()
        with threads(experiment.training.threads):  # the cores are for the clients
            answers: Iterable[Update | Failure] = run_clients(broadcast, clients)
            for transform in experiment.transforms.values():
                answers = transform.collude(answers, broadcast, info)
            updates = remarks.before(terms.count(validator.take(answers)))
            for look in watch:
                updates = look(updates, broadcast, info)
            for transform in experiment.transforms.values():
                updates = transform(updates, broadcast, info)
                info = transform.tell(info)
            updates = _average_buffers(remarks.after(updates), statistics)
            if (some := _unless_empty(updates)) is not None:
                server = replace(method.aggregate(server, some, info), buffers=statistics.value)
                for _ in some:  # whatever the method did not read: every client's update is taken and counted
                    pass
        refuse_infinite(server, number, validator.outlier())
        yield Round(
            number=number,
            server=server,
            clients=clients,
            missing=validator.missing,
            terms=terms.value(),
            local_terms=terms.epochs,
            notes={**validator.notes, **remarks.value(",".join(experiment.transforms))},
            outlier=validator.outlier(),
        )


def refuse_infinite(server: Server, number: int, outlier: str) -> None:
    """End a run whose server no longer holds numbers; nothing of that round is kept."""
    for section in fields(server):
        if wrong := not_finite(getattr(server, section.name)):
            raise RunError(
                f"round {number} ended with NaN or infinity in the server's {section.name} (in {wrong[0]}): "
                f"{outlier or 'lower training.lr, or the rates of the method'}"
            )


def draw_clients(federation: Federation, number: int) -> list[int]:
    """Return the clients of a round, those with the most examples first.

    That order keeps parallel workers evenly busy, and since the server takes updates in it too, they can be
    used as they come.
    """
    experiment, sizes = federation.experiment, federation.roster.sizes
    drawn = DRAWS[experiment.sampling](experiment, number)
    return sorted(drawn, key=lambda client: (-int(sizes[client]), client))


def _draw_fixed(experiment: Experiment, number: int) -> list[int]:
    seed = named_seed(experiment.seed, "participation", number)
    return first_of_permutation(experiment.clients, experiment.cohort, seed=seed)


def _draw_poisson(experiment: Experiment, number: int) -> list[int]:
    stream = frozen_stream(experiment.seed, "participation", number)
    drawn: list[int] = np.flatnonzero(stream.random_sample(experiment.clients) < experiment.rate).tolist()
    return drawn


DRAWS = {"fixed": _draw_fixed, "poisson": _draw_poisson}
"""How the clients of a round are drawn: so many of them, or each by itself, which may be nobody."""


def _unless_empty(updates: Iterator[Update]) -> Iterator[Update] | None:
    """Return the updates, or None if there are none: then the server stays as it is."""
    first = list(islice(updates, 1))

    def all_of_them() -> Iterator[Update]:
        yield first.pop()  # and nobody else holds it
        yield from updates

    return all_of_them() if first else None


def _average_buffers(updates: Iterable[Update], mean: Mean) -> Iterator[Update]:
    """Average BatchNorm's statistics as updates pass, the same for all methods.

    Running variances are averaged, never extrapolated: a momentum step can make them negative.
    """
    for update in updates:
        mean.add(update.buffers, update.examples)
        yield update


class Remarks:
    """What transforms remark on updates (in their notes), and whose updates they leave out."""

    def __init__(self) -> None:
        self._notes: dict[int, str] = {}
        self._left_out: dict[int, None] = {}

    def before(self, updates: Iterable[Update]) -> Iterator[Update]:
        """Pass on the updates that transforms get."""
        for update in updates:
            self._left_out |= dict.fromkeys(update.clients)
            yield update

    def after(self, updates: Iterable[Update]) -> Iterator[Update]:
        """Pass on the updates that the method gets."""
        for update in updates:
            for client in update.clients:
                self._left_out.pop(client, None)
            if update.note:
                self._notes[update.client] = update.note
            yield update

    def value(self, transforms: str) -> dict[int, str]:
        """Return all that is to be known of clients, whose updates went through these transforms."""
        return self._notes | dict.fromkeys(self._left_out, f"its update was left out by transforms={transforms}")


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
