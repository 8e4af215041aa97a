"""Parsing of untrusted replies, without Flower: the engine's process does not import it."""

from __future__ import annotations

from feddecorr.core.checks import printable, shown
from feddecorr.core.messages import Failure, Update, from_bytes
from feddecorr.errors import UserError

KINDS: dict[str, type[Update] | type[Failure]] = {"update": Update, "failure": Failure}
"""The replies to a broadcast, by their kind."""


def read_failure(content: bytes) -> str:
    """Return the cause of a node's failure, in its own words."""
    try:
        return printable(from_bytes(Failure, content).cause)
    except UserError as error:
        return printable(f"its message was refused: {error}")


def read_reply(content: bytes, kind: str, *, number: int, client: int) -> Update | Failure:
    """Return a client's reply, or a failure that says why it is refused."""
    if kind not in KINDS:
        return Failure(number, client, f"it sent {shown(kind)}, neither an update nor a failure")
    try:
        reply = from_bytes(KINDS[kind], content)
    except UserError as error:
        return Failure(number, client, f"its message was refused: {error}")
    if reply.client != client:
        return Failure(number, client, f"it replied as client {reply.client}")
    return reply
