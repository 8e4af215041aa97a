"""Validation of updates: every field of what clients send has a type, a size and a range, in one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from feddecorr.core.checks import (
    NAME,
    Check,
    OneOf,
    Real,
    Several,
    Table,
    Text,
    Whole,
    check_fields,
)
from feddecorr.core.evidence import Evidence
from feddecorr.core.messages import Broadcast, Update
from feddecorr.core.states import State, magnitudes, misfits
from feddecorr.core.wire import MOST_TERMS
from feddecorr.errors import UserError
from feddecorr.server.federation import Federation
from feddecorr.training.batches import batch_sizes

ROUNDING = 1e-6
"""By how much an amount may miss its bounds: it is a sum of floating-point numbers."""

SMALLEST = 1e-100
"""The least amount: a schedule that ends at a rate of 0 leaves nothing to divide by."""


@dataclass(frozen=True)
class Expected:
    """What a server knows of the updates of a round before they come; all narrower bounds follow from it.

    From the experiment: the objective's terms, local epochs, and how far the steps can go. From the roster: numbers of
    examples. From what was sent: names, shapes and types of tensors. From the task: the width of representations.
    """

    federation: Federation
    broadcast: Broadcast
    extra: State

    def check(self, update: Update) -> float:
        """Refuse an update with a field that is not as expected; return the largest number in its weights."""
        check_fields(update, self._fields(update.clients))
        largest = [self._check_state(section, getattr(update, section), like) for section, like in self.states.items()]
        self._check_evidence(update.evidence)
        return largest[0]

    @cached_property
    def states(self) -> dict[str, State]:
        """What the tensors of an update look like."""
        return {"weights": self.broadcast.weights, "buffers": self.broadcast.buffers, "extra": self.extra}

    def _fields(self, clients: Sequence[int]) -> Mapping[str, Check]:
        """Return the bounds for an update of these clients, who are known to the roster."""
        sizes = [int(self.federation.roster.sizes[client]) for client in clients]
        experiment = self.federation.experiment
        epochs = experiment.training.steps_per_epoch(len(batch_sizes(max(1, *sizes), experiment.training.batch)))
        rate = experiment.training.rate(self.broadcast.round)
        least = max(SMALLEST, rate * (1 - ROUNDING))
        most = rate * sum(epochs) / (1 - experiment.training.momentum) * (1 + ROUNDING)
        told = len(epochs) if self.federation.task.evaluation.epochs else 0
        return {
            "examples": Whole(1, sum(sizes)),
            "amount": Real(least, most),
            "metrics": Table(self._terms, Real(), MOST_TERMS),
            "epochs": Table(self._terms, Several(Real(), told, told), MOST_TERMS if told else 0),
            "note": Text(),
        }

    @cached_property
    def _terms(self) -> Check:
        """The names of the objective's terms; where a method does not tell its own, any name will do."""
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
        """Refuse tensors that do not fit or hold what no training makes; return the largest number, in one pass."""
        if not isinstance(state, dict):
            raise UserError(f"{section} are a {type(state).__name__}, not tensors by name")
        if problems := misfits(state, like, strict=True):
            raise UserError(f"its {section} do not fit ({'; '.join(problems)})")
        return magnitudes(section, state, like)
