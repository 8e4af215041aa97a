"""What nodes send back, read with suspicion."""

from __future__ import annotations

from feddecorr.errors import UserError
from feddecorr.messages import Failure, Update
from feddecorr.wire import from_bytes

KINDS: dict[str, type[Update] | type[Failure]] = {"update": Update, "failure": Failure}
"""The answers to a broadcast, by what their notes call them."""


def read_answer(content: bytes, kind: str, *, number: int, client: int) -> Update | Failure:
    """Return what the node of a client sent, or a failure that says why it cannot be taken for that client's."""
    if kind not in KINDS:
        return Failure(number, client, f"it sent {kind!r}, neither an update nor a failure")
    try:
        answer = from_bytes(KINDS[kind], content)
    except UserError as error:
        return Failure(number, client, f"its message was refused: {error}")
    if answer.client != client:
        return Failure(number, client, f"it speaks for client {answer.client}")
    return answer
