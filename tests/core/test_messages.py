"""A message is read as what it is, or refused by a sentence: nothing else comes of any bytes."""

import json
from typing import Any

import pytest
import torch
from safetensors.torch import save
from small import digest

from feddecorr.core.messages import MOST_TENSORS, NOTE, Broadcast, Failure, Update, from_bytes, to_bytes, unpack
from feddecorr.errors import UserError

STATE = {"w": torch.randn(2, 3), "b": torch.tensor(4)}
UPDATE = Update(1, 2, 3, 0.5, STATE, {}, {}, {"cross_entropy": 1.0}, {"cross_entropy": [1.0, 0.5]}, "a note")


def test_messages_come_back() -> None:
    for message in (UPDATE, Broadcast(7, STATE, {}, {}), Failure(1, 2, "why\n\ud800", "trace")):
        back = from_bytes(type(message), to_bytes(message))
        for name, value in vars(message).items():
            found = getattr(back, name)
            assert (digest(found) if value is STATE else found) == (digest(value) if value is STATE else value)


def said(**changes: Any) -> bytes:
    """Return an update in which something apart from its tensors is changed."""
    _, note = unpack(to_bytes(UPDATE))
    return save({f"weights/{name}": each for name, each in STATE.items()}, {NOTE: json.dumps({**note, **changes})})


WRONG: dict[str, bytes] = {
    "nothing": b"",
    "a length without a document": b"\xff" * 8,
    "a list": (2).to_bytes(8, "little") + b"[]",
    "no note": save(STATE),
    "deep nesting": save(STATE, {NOTE: "[" * 100_000}),
    "a note that is no table": save(STATE, {NOTE: "3"}),
    "another kind": to_bytes(Broadcast(1, STATE, {}, {})),
    "an unknown field": said(more=1),
    "an unknown section": save({"other/w": torch.ones(1)}, {NOTE: json.dumps(unpack(to_bytes(UPDATE))[1])}),
    "a truth for a number": said(examples=True),
    "a number beyond all": said(examples=10**400),
    "text for a number": said(amount="0.5"),
    "NaN": said(amount=float("nan")),
    "infinity in a term": said(metrics={"cross_entropy": float("inf")}),
    "a half character": said(note="\ud800"),
    "a long note": said(note="a" * 501),
    "a list for a table": said(metrics=[1]),
    "text in an epoch": said(epochs={"cross_entropy": ["1"]}),
    "text for clients": said(merged_clients=["1"]),
    "a name with a control character": said(metrics={"\x1b": 1.0}),
    "very many tensors": save({f"weights/{n}": torch.zeros(0) for n in range(MOST_TENSORS + 1)}, {NOTE: "{}"}),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_update_is_refused(name: str) -> None:
    with pytest.raises(UserError):
        from_bytes(Update, WRONG[name])
