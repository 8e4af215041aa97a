"""Validation of updates: every update is tagged with round and client, checked field by field, and counted here."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from feddecorr.core.checks import (
    NAME,
    Check,
    ListOf,
    MappingOf,
    OneOf,
    Real,
    Text,
    Whole,
    check_fields,
    printable,
    shown,
)
from feddecorr.core.evidence import Evidence
from feddecorr.core.messages import FIELDS, MOST_TERMS, Broadcast, Failure, Update
from feddecorr.core.states import State, has_layout, magnitudes, match_layout, misfits
from feddecorr.errors import RunError, UserError
from feddecorr.server.federation import Federation
from feddecorr.training.shards import batch_count

Missing = Literal["fail", "continue"]

SENDER = {name: FIELDS["Update"][name] for name in ("round", "client", "merged_clients")}
"""The fields that identify an update: its round and its client."""

MAX_TRACEBACK = 10_000
"""Characters of a client's traceback that are shown."""

OUTLIER_FACTOR = 1000
"""A client is an outlier if its largest weight exceeds this multiple of the clients' median."""

ROUNDING = 1e-6
"""Tolerance for the bounds of an amount, which is a sum of floating-point numbers."""

MIN_AMOUNT = 1e-100
"""Lower bound of an amount: a schedule that ends at a learning rate of 0 would leave nothing to divide by."""


@dataclass(frozen=True)
class ExpectedUpdates:
    """What the server knows about a round's updates in advance; every bound follows from it.

    The experiment gives the objective's terms, the local epochs and how far the steps can go; the roster gives the
    numbers of examples; the broadcast gives names, shapes and types of tensors; the task gives the feature width.
    """

    federation: Federation
    broadcast: Broadcast
    extra: State

    def check(self, update: Update) -> float:
        """Raise if a field is not as expected; return the largest absolute weight."""
        check_fields(update, self._fields(update.clients))
        largest = [self._check_state(section, getattr(update, section), like) for section, like in self.states.items()]
        self._check_evidence(update.evidence)
        return largest[0]

    @cached_property
    def states(self) -> dict[str, State]:
        """Templates of an update's tensors."""
        return {"weights": self.broadcast.weights, "buffers": self.broadcast.buffers, "extra": self.extra}

    def _fields(self, clients: Sequence[int]) -> Mapping[str, Check]:
        """Return the bounds for an update of these clients, which the roster must contain."""
        sizes = [int(self.federation.roster.sizes[client]) for client in clients]
        experiment = self.federation.experiment
        epochs = experiment.training.steps_per_epoch(batch_count(max(1, *sizes), experiment.training.batch))
        rate = experiment.rate_of(self.broadcast.round)
        least = max(MIN_AMOUNT, rate * (1 - ROUNDING)) if rate else 0.0
        most = rate * sum(epochs) / (1 - experiment.training.momentum) * (1 + ROUNDING)
        recorded = len(epochs) if self.federation.task.evaluation.epochs else 0
        return {
            "examples": Whole(1, sum(sizes)),
            "amount": Real(least, most),
            "metrics": MappingOf(self._terms, Real(), MOST_TERMS),
            "epochs": MappingOf(self._terms, ListOf(Real(), recorded, recorded), MOST_TERMS if recorded else 0),
            "note": Text(),
        }

    @cached_property
    def _terms(self) -> Check:
        """The names of the objective's terms; any name, if the method does not declare its own."""
        own = self.federation.experiment.method.known_terms()
        return NAME if own is None else OneOf({"cross_entropy", *self.federation.experiment.regularizers, *own})

    def _check_evidence(self, evidence: State) -> None:
        if evidence == {}:
            return
        try:
            Evidence.from_state(evidence, width=self.federation.task.width)
        except UserError as error:
            raise UserError(f"its evidence was refused: {error}") from error

    def _check_state(self, section: str, state: State, like: State) -> float:
        """Raise if tensors do not fit or hold what no training produces; return the largest absolute value."""
        if not isinstance(state, dict):
            raise UserError(f"{section} are a {type(state).__name__}, not tensors by name")
        if problems := misfits(state, like, strict=True):
            raise UserError(f"its {section} do not fit ({'; '.join(problems)})")
        return magnitudes(section, state, like)


class UpdateValidator:
    """Validates the updates of one round; records which clients are missing and why, and their notes.

    An update is valid if its client was sampled in this round, has not sent one yet, and every field is as expected.
    If `merged`, one update may be the mean of several clients' updates. Under `missing="fail"` anything else ends the
    run; under `continue` the round continues as long as `minimum` clients remain. Reasons are short and printable,
    whatever a client wrote.
    """

    def __init__(
        self, expected: ExpectedUpdates, sampled: Sequence[int], *, missing: Missing, minimum: int, merged: bool = False
    ) -> None:
        self.missing: dict[int, str] = {}
        self.notes: dict[int, str] = {}
        self._expected = expected
        self._round = expected.broadcast.round
        self._sampled = dict.fromkeys(sampled)
        self._policy = missing
        self._minimum = minimum
        self._merged = merged
        self._accepted: dict[int, float] = {}  # largest absolute weight by client

    def validate(self, answers: Iterable[Update | Failure]) -> Iterator[Update]:
        """Yield the valid updates as they come; at the end, raise if there were too few."""
        for answer in answers:
            if isinstance(answer, Failure):
                self._miss([answer.client], answer.cause, answer.trace)
                continue
            try:
                self._check(answer)
            except UserError as error:
                self._miss(answer.clients if self._merged else [answer.client], str(error))
                continue
            if answer.note:
                self.notes[answer.client] = answer.note
            yield self._match_layout(answer)
        for client in self._sampled:
            if client not in self._accepted and client not in self.missing:
                self._miss([client], "it sent nothing")
        if len(self._accepted) < self._minimum:
            raise RunError(
                f"round {self._round} has {len(self._accepted)} updates from {len(self._sampled)} sampled clients, "
                f"fewer than minimum_clients={self._minimum} ({self._reasons()})"
            )

    def outlier(self) -> str:
        """Return a sentence about the client with unusually large weights; empty if there is none."""
        client = max(self._accepted, key=self._accepted.__getitem__, default=None)
        middle = statistics.median(self._accepted.values()) if self._accepted else 0.0
        if client is None or self._accepted[client] <= OUTLIER_FACTOR * max(1.0, middle):
            return ""
        return (
            f"client {client} sent weights of up to {self._accepted[client]:.3g}, the median client {middle:.3g}: "
            "transforms=clip or transforms=median protects against that"
        )

    def _check(self, update: Update) -> None:
        check_fields(update, SENDER)
        clients = set(update.clients)
        if update.round != self._round:
            raise UserError(f"its update is for round {update.round}")
        if update.merged_clients and not self._merged:
            raise UserError("its update is also for other clients")
        if not self._sampled.keys() >= clients or len(clients) <= len(update.merged_clients):
            raise UserError("it was not asked for an update")
        if self._accepted.keys() & clients:
            raise UserError("it sent a second update")
        self._accepted |= dict.fromkeys(clients, self._expected.check(update))
        for client in clients & self.missing.keys():  # an earlier refusal in its name no longer matters
            del self.missing[client]

    def _miss(self, clients: Sequence[int], cause: str, trace: str = "") -> None:
        why = printable(cause)
        for client in clients:
            if self._policy == "fail":
                remote = RuntimeError(f"in the client:\n{_printable_traceback(trace)}") if trace else None
                raise RunError(f"client {shown(client)} failed in round {self._round}: {why}") from remote
            if type(client) is int and client in self._sampled and client not in self._accepted:
                self.missing[client] = why

    def _match_layout(self, update: Update) -> Update:
        sent: dict[str, State] = {name: getattr(update, name) for name in self._expected.states}
        if all(has_layout(state, self._expected.states[name]) for name, state in sent.items()):
            return update
        sections = {name: match_layout(state, self._expected.states[name]) for name, state in sent.items()}
        return Update(**{**vars(update), **sections})

    def _reasons(self) -> str:
        return "; ".join(f"client {client}: {cause}" for client, cause in self.missing.items()) or "nobody failed"


def _printable_traceback(trace: str) -> str:
    """Return the end of a traceback, its most telling part, line by line."""
    return "\n".join(printable(line) if line.strip() else "" for line in trace[-MAX_TRACEBACK:].split("\n"))
