"""The one road for updates: whoever ran the clients, what they send is tagged, checked and counted here."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from feddecorr.core.checks import check_fields, printable, shown
from feddecorr.core.messages import Failure, Update
from feddecorr.core.states import State, has_layout, match_layout
from feddecorr.core.wire import FIELDS
from feddecorr.errors import RunError, UserError
from feddecorr.server.validation import Expected

Missing = Literal["fail", "continue"]

PLACE = {name: FIELDS["Update"][name] for name in ("round", "client", "beside")}
"""What says whose update it is, and of which round."""

LONGEST_TRACE = 10_000
"""Characters of a client's traceback that are shown."""

STANDS_OUT = 1000
"""A client whose largest weight is so many times the median of all clients' is named when the server ends infinite."""


class UpdateValidator:
    """Takes the updates of one round, and remembers whose are missing and why, and what clients remarked.

    An update counts if its client was asked for it in this round, has not sent one yet, and if every field is as
    `Expected` says. Where they are `merged`, one may be the mean of several clients'. Under `fail`, anything else ends
    the run; under `continue`, the round goes on as long as `minimum` clients are left. Reasons are short and printable,
    whatever a client put into them.
    """

    def __init__(
        self, expected: Expected, asked: Sequence[int], *, missing: Missing, minimum: int, merged: bool = False
    ) -> None:
        self.missing: dict[int, str] = {}
        self.notes: dict[int, str] = {}
        self._expected = expected
        self._round = expected.broadcast.round
        self._asked = dict.fromkeys(asked)
        self._policy = missing
        self._minimum = minimum
        self._merged = merged
        self._taken: dict[int, float] = {}  # with the largest number that each sent

    def take(self, answers: Iterable[Update | Failure]) -> Iterator[Update]:
        """Yield the updates that count, as they come; at the end, refuse a round with too few."""
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
        for client in self._asked:
            if client not in self._taken and client not in self.missing:
                self._miss([client], "it sent nothing")
        if len(self._taken) < self._minimum:
            raise RunError(
                f"round {self._round} has {len(self._taken)} updates of the {len(self._asked)} clients that were "
                f"asked, fewer than minimum_clients={self._minimum} ({self._reasons()})"
            )

    def outlier(self) -> str:
        """Return a sentence about the client that stands out by the size of its weights; nothing if none does."""
        client = max(self._taken, key=self._taken.__getitem__, default=None)
        middle = statistics.median(self._taken.values()) if self._taken else 0.0
        if client is None or self._taken[client] <= STANDS_OUT * max(1.0, middle):
            return ""
        return (
            f"client {client} sent weights of up to {self._taken[client]:.3g}, where others have {middle:.3g}: "
            "transforms=clip or median holds against that"
        )

    def _check(self, update: Update) -> None:
        """Refuse an update that does not count."""
        check_fields(update, PLACE)
        clients = set(update.clients)
        if update.round != self._round:
            raise UserError(f"its update is for round {update.round}")
        if update.beside and not self._merged:
            raise UserError("its update is for others, too")
        if not self._asked.keys() >= clients or len(clients) <= len(update.beside):
            raise UserError("it was not asked for an update")
        if self._taken.keys() & clients:
            raise UserError("it sent a second update")
        self._taken |= dict.fromkeys(clients, self._expected.check(update))
        for client in clients & self.missing.keys():  # what was refused before in its name does not matter any more
            del self.missing[client]

    def _miss(self, clients: Sequence[int], cause: str, trace: str = "") -> None:
        why = printable(cause)
        for client in clients:
            if self._policy == "fail":
                told = RuntimeError(f"in the client:\n{_lines(trace)}") if trace else None
                raise RunError(f"client {shown(client)} failed in round {self._round}: {why}") from told
            if type(client) is int and client in self._asked and client not in self._taken:  # else it is no loss
                self.missing[client] = why

    def _match_layout(self, update: Update) -> Update:
        sent: dict[str, State] = {name: getattr(update, name) for name in self._expected.states}
        if all(has_layout(state, self._expected.states[name]) for name, state in sent.items()):
            return update
        sections = {name: match_layout(state, self._expected.states[name]) for name, state in sent.items()}
        return Update(**{**vars(update), **sections})

    def _reasons(self) -> str:
        return "; ".join(f"client {client}: {cause}" for client, cause in self.missing.items()) or "nobody failed"


def _lines(trace: str) -> str:
    """Return the end of a traceback, which tells the most, line by line."""
    return "\n".join(printable(line) if line.strip() else "" for line in trace[-LONGEST_TRACE:].split("\n"))
