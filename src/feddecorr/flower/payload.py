"""Our payloads in Flower's messages: bytes that travel unchanged, whatever dtypes are in them, and a config record.

Light to import: Flower starts a client process for every message, and it should not load PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from feddecorr.errors import UserError

HOME = "FEDDECORR_SIMULATION"
"""The environment variable by which the nodes of a simulation know its folder."""

CONTENT, CONFIG, BYTES = "feddecorr.content", "feddecorr.config", "bytes"


class Payload(NamedTuple):
    """The content and the config of one of our messages."""

    content: bytes
    config: dict[str, str | int]


def to_arrays(content: bytes) -> ArrayRecord:
    """Return the bytes as an array record, which Flower sends in chunks and stores once for several nodes."""
    return ArrayRecord({BYTES: Array(dtype="uint8", shape=(len(content),), stype="safetensors", data=content)})


def pack(content: ArrayRecord, config: Mapping[str, str | int]) -> RecordDict:
    """Return the content of a Flower message."""
    return RecordDict({CONTENT: content, CONFIG: ConfigRecord(dict(config))})


def unpack(records: RecordDict, limit: int) -> Payload:
    """Return the payload of a Flower message; raise if it is not ours or has more than `limit` bytes."""
    content, config = records.get(CONTENT), records.get(CONFIG)
    if not isinstance(content, ArrayRecord) or set(content) != {BYTES} or not isinstance(config, ConfigRecord):
        raise UserError(f"this is not a message of feddecorr: it holds {', '.join(records) or 'nothing'}")
    data = content[BYTES].data
    if len(data) > limit:
        raise UserError(f"the message has {len(data)} bytes, more than the limit of {limit}")
    return Payload(data, {key: value for key, value in config.items() if isinstance(value, str | int)})


def reply_limit(sent: int) -> int:
    """Return the size limit of a reply to that many bytes: weights, the method's extra tensors, and a traceback."""
    return 4 * sent + (1 << 24)
