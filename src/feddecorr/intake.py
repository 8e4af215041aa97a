"""The one road for updates: whoever ran the clients, what they send is tagged, checked and counted here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from feddecorr.collapse.shared_evidence import Evidence
from feddecorr.errors import RunError, UserError
from feddecorr.messages import Broadcast, Failure, Update
from feddecorr.states import State, is_laid_out, lay_out, misfits, not_finite

Missing = Literal["fail", "continue"]


class Intake:
    """Takes the updates of one round, and remembers whose are missing and why, and what clients remarked.

    An update counts if its client was asked for it in this round, has not sent one yet, and what it sent has the
    names, shapes and types of what was sent to it, all of it finite. Where they are `merged`, one may be the mean of
    several clients'. Under `fail`, anything else ends the run; under `continue`, the round goes on as long as `minimum`
    clients are left.
    """

    def __init__(
        self,
        broadcast: Broadcast,
        asked: Sequence[int],
        *,
        extra: State,
        missing: Missing,
        minimum: int,
        merged: bool = False,
    ) -> None:
        self.missing: dict[int, str] = {}
        self.notes: dict[int, str] = {}
        self._broadcast = broadcast
        self._asked = dict.fromkeys(asked)
        self._expected = {"weights": broadcast.weights, "buffers": broadcast.buffers, "extra": extra}
        self._policy = missing
        self._minimum = minimum
        self._merged = merged
        self._taken: set[int] = set()

    def take(self, answers: Iterable[Update | Failure]) -> Iterator[Update]:
        """Yield the updates that count, as they come; at the end, refuse a round with too few."""
        for answer in answers:
            if isinstance(answer, Failure):
                self._miss(answer.client, answer.cause, answer.trace)
            elif problem := self._problem(answer):
                for client in answer.clients if self._merged else [answer.client]:
                    self._miss(client, problem)
            else:
                self._taken.update(answer.clients)
                if answer.note:
                    self.notes[answer.client] = answer.note
                yield self._laid_out(answer)
        for client in self._asked:
            if client not in self._taken and client not in self.missing:
                self._miss(client, "it sent nothing")
        if len(self._taken) < self._minimum:
            raise RunError(
                f"round {self._broadcast.round} has {len(self._taken)} updates of the {len(self._asked)} clients that "
                f"were asked, fewer than minimum_clients={self._minimum} ({self._reasons()})"
            )

    def _miss(self, client: int, cause: str, trace: str = "") -> None:
        if self._policy == "fail":
            message = f"client {client} failed in round {self._broadcast.round}: {cause}"
            raise RunError(message) from (RuntimeError(f"in the client:\n{trace}") if trace else None)
        if client in self._asked and client not in self._taken:  # strangers and repetitions are no loss
            self.missing[client] = cause

    def _problem(self, update: Update) -> str | None:
        """Return why the update does not count."""
        return self._misplaced(update) or self._misfit(update)

    def _misplaced(self, update: Update) -> str | None:
        if update.round != self._broadcast.round:
            return f"its update is for round {update.round}"
        if update.beside and not self._merged:
            return "its update is for others, too"
        if not self._asked.keys() >= set(update.clients):
            return "it was not asked for an update"
        if self._taken & set(update.clients):
            return "it sent a second update"
        return None

    def _misfit(self, update: Update) -> str | None:
        if update.examples < 1 or not 0 < update.amount < math.inf:
            return f"it trained on {update.examples} examples, by an amount of {update.amount}"
        if not all(map(math.isfinite, update.metrics.values())):
            return f"the terms of its objective are {update.metrics}"
        for section, expected in self._expected.items():
            state: State = getattr(update, section)
            if not state and not expected:
                continue
            if problems := misfits(state, expected, types=True):
                return f"its {section} do not fit ({'; '.join(problems)})"
            if wrong := not_finite(state):
                return f"its {section} hold NaN or infinity (in {wrong[0]}); lower training.lr"
        return _doubt(update)

    def _laid_out(self, update: Update) -> Update:
        sent: dict[str, State] = {name: getattr(update, name) for name in self._expected}
        if all(is_laid_out(state, self._expected[name]) for name, state in sent.items()):
            return update
        sections = {name: lay_out(state, self._expected[name]) for name, state in sent.items()}
        return Update(**{**vars(update), **sections})

    def _reasons(self) -> str:
        return "; ".join(f"client {client}: {cause}" for client, cause in self.missing.items()) or "nobody failed"


def _doubt(update: Update) -> str | None:
    """Return why what the client found out about its model cannot be."""
    try:
        if update.evidence:
            Evidence.from_state(update.evidence)
    except UserError as error:
        return f"its evidence was refused: {error}"
    return None
