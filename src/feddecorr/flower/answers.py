"""What nodes send back, read with suspicion."""

from __future__ import annotations

from feddecorr.core.checks import printable, shown
from feddecorr.core.evidence import Evidence
from feddecorr.core.messages import Failure, Update
from feddecorr.core.wire import from_bytes
from feddecorr.errors import UserError
from feddecorr.flower.exchange import Answer

KINDS: dict[str, type[Update] | type[Failure]] = {"update": Update, "failure": Failure}
"""The answers to a broadcast, by what their notes call them."""


def read_failure(content: bytes) -> str:
    """Return why a node could not do what it was asked for, in its own words."""
    try:
        return printable(from_bytes(Failure, content).cause)
    except UserError as error:
        return printable(f"its message was refused: {error}")


def read_evidence(answer: Answer, width: int) -> Evidence:
    """Return what a node found out about a model with so many features, or refuse what is none."""
    if answer.letter is None:
        raise UserError(answer.cause)
    if answer.letter.note.get("kind") != "evidence":
        raise UserError(read_failure(answer.letter.content))
    return Evidence.from_bytes(answer.letter.content, width)


def read_answer(content: bytes, kind: str, *, number: int, client: int) -> Update | Failure:
    """Return what the node of a client sent, or a failure that says why it cannot be taken for that client's."""
    if kind not in KINDS:
        return Failure(number, client, f"it sent {shown(kind)}, neither an update nor a failure")
    try:
        answer = from_bytes(KINDS[kind], content)
    except UserError as error:
        return Failure(number, client, f"its message was refused: {error}")
    if answer.client != client:
        return Failure(number, client, f"it speaks for client {answer.client}")
    return answer
