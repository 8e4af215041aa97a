"""Messages as bytes: tensors as safetensors, all else as JSON in its header. Nothing is ever unpickled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar, get_type_hints

from safetensors import SafetensorError
from safetensors.torch import load, save

from feddecorr.core.checks import (
    LARGEST,
    MOST_EXAMPLES,
    NAME,
    AnyText,
    Check,
    ListOf,
    MappingOf,
    Real,
    Text,
    Whole,
    check_fields,
)
from feddecorr.core.messages import Broadcast, Failure, Update
from feddecorr.core.states import State
from feddecorr.errors import UserError

NOTE = "feddecorr"
"""The key of the header under which a message says what it is and what is in it besides tensors."""

MOST_TENSORS = 1 << 16
"""Tensors in a message."""

MOST_TERMS = 64
"""Terms of an objective."""

MOST_EPOCHS = 100_000
"""Local epochs of which a client may tell."""

COUNTS = Whole(0, MOST_EXAMPLES)

FIELDS: dict[str, dict[str, Check]] = {
    "Broadcast": {"round": COUNTS},
    "Failure": {"round": COUNTS, "client": COUNTS, "cause": AnyText(), "trace": AnyText()},
    "Update": {
        "round": COUNTS,
        "client": COUNTS,
        "merged_clients": ListOf(COUNTS, MOST_EXAMPLES),
        "examples": Whole(1, MOST_EXAMPLES),
        "amount": Real(0, LARGEST),
        "metrics": MappingOf(NAME, Real(), MOST_TERMS),
        "epochs": MappingOf(NAME, ListOf(Real(), MOST_EPOCHS), MOST_TERMS),
        "note": Text(),
    },
}
"""What a message of each kind may hold besides tensors: what can be checked without knowing the run."""

Message = TypeVar("Message", bound=Broadcast | Update | Failure)


def to_bytes(message: Broadcast | Update | Failure) -> bytes:
    """Return the message in a form that any process can read."""
    states = {name: getattr(message, name) for name in _states(type(message))}
    plain = {field.name: getattr(message, field.name) for field in fields(message) if field.name not in states}
    return pack(states, {"kind": type(message).__name__, **plain})


def from_bytes(kind: type[Message], content: bytes) -> Message:
    """Return the message of that kind, or refuse what is none; what it says is checked, and its tensors are not."""
    states, note = unpack(content)
    if note.pop("kind", None) != kind.__name__:
        raise UserError(f"this is no {kind.__name__.lower()}")
    names, tensors = {field.name for field in fields(kind)}, _states(kind)
    if note.keys() != names - tensors or not states.keys() <= tensors:
        raise UserError(f"a {kind.__name__.lower()} holds {', '.join(sorted(names))}, and nothing else")
    found: dict[str, Any] = {**note, **{name: states.get(name, {}) for name in tensors}}
    message = kind(**found)
    check_fields(message, FIELDS[kind.__name__])
    return message


def pack(states: Mapping[str, State], note: Mapping[str, Any]) -> bytes:
    """Return named states, and a note that JSON can hold, as one safetensors document."""
    named = ((f"{section}/{name}", tensor) for section, state in states.items() for name, tensor in state.items())
    flat = {name: tensor.contiguous() for name, tensor in named}
    return save(flat, {NOTE: json.dumps(dict(note))})


def unpack(content: bytes) -> tuple[dict[str, State], dict[str, Any]]:
    """Return what was packed; states that were empty are not there."""
    try:
        size = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + size])
        note = json.loads(header["__metadata__"][NOTE])
        if len(header) > MOST_TENSORS:
            raise UserError(f"it has {len(header)} tensors, more than the {MOST_TENSORS} that are taken")
        flat = load(content)
    except (SafetensorError, ValueError, LookupError, TypeError, RecursionError, OverflowError) as error:
        raise UserError(f"this is no message that can be read: {error}") from error
    if not isinstance(note, dict):
        raise UserError(f"the note of a message is a table, not {type(note).__name__}")
    states: dict[str, State] = {}
    for path, tensor in flat.items():
        section, _, name = path.partition("/")
        states.setdefault(section, {})[name] = tensor
    return states, note


def _states(kind: type[Any]) -> set[str]:
    """Return the names of the fields that hold tensors."""
    return {name for name, hint in get_type_hints(kind).items() if hint == State}
