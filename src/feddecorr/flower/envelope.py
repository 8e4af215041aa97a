"""Our bytes in Flower's messages: they travel as they are, whatever types of tensors are in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from feddecorr.errors import UserError

CONTENT, NOTE, BYTES = "feddecorr.content", "feddecorr.note", "bytes"

Note = Mapping[str, str | int]
"""What is said beside the bytes."""


class Letter(NamedTuple):
    """What a message of ours holds."""

    content: bytes
    note: dict[str, str | int]


def wrap(content: bytes) -> ArrayRecord:
    """Return the bytes as Flower carries them: in pieces, and to several nodes only once."""
    return ArrayRecord({BYTES: Array(dtype="uint8", shape=(len(content),), stype="safetensors", data=content)})


def seal(content: ArrayRecord, note: Note) -> RecordDict:
    """Return the content of a message."""
    return RecordDict({CONTENT: content, NOTE: ConfigRecord(dict(note))})


def unseal(records: RecordDict, limit: int) -> Letter:
    """Return what a message holds, or refuse what is none of ours or longer than `limit` bytes."""
    content, note = records.get(CONTENT), records.get(NOTE)
    if not isinstance(content, ArrayRecord) or set(content) != {BYTES} or not isinstance(note, ConfigRecord):
        raise UserError(f"this is no message of ours: it holds {', '.join(records) or 'nothing'}")
    data = content[BYTES].data
    if len(data) > limit:
        raise UserError(f"the message has {len(data)} bytes, more than the {limit} that are taken")
    return Letter(data, {key: value for key, value in note.items() if isinstance(value, str | int)})


def largest_answer(sent: int) -> int:
    """Return how many bytes an answer to so many may have: weights, what the method adds to them, and a traceback."""
    return 4 * sent + (1 << 24)
