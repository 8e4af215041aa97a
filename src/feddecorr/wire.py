"""Messages as bytes: tensors as safetensors, all else as JSON in its header. Nothing is ever unpickled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load, save

from feddecorr.errors import UserError
from feddecorr.messages import Broadcast, Failure, Update
from feddecorr.states import State

NOTE = "feddecorr"
"""The key of the header under which a message says what it is and what is in it beside tensors."""

Message = TypeVar("Message", bound=Broadcast | Update | Failure)


def to_bytes(message: Broadcast | Update | Failure) -> bytes:
    """Return the message in a form that any process can read."""
    states = {name: getattr(message, name) for name in _states(type(message))}
    plain = {field.name: getattr(message, field.name) for field in fields(message) if field.name not in states}
    return pack(states, {"kind": type(message).__name__, **plain})


def from_bytes(kind: type[Message], content: bytes) -> Message:
    """Return the message of that kind, or refuse what is none."""
    states, note = unpack(content)
    if note.pop("kind", None) != kind.__name__:
        raise UserError(f"this is no {kind.__name__.lower()}")
    hints = get_type_hints(kind)
    known = {name: hints[name] for name in hints if name not in _states(kind)}
    if note.keys() != known.keys() or not states.keys() <= _states(kind):
        raise UserError(f"a {kind.__name__.lower()} holds {', '.join(hints)}, not {', '.join([*states, *note])}")
    try:
        plain = {name: _check(hint).validate_python(note[name], strict=True) for name, hint in known.items()}
    except ValidationError as error:
        raise UserError(f"this {kind.__name__.lower()} cannot be read: {error.errors()[0]['msg']}") from error
    found: dict[str, Any] = {**plain, **{name: states.get(name, {}) for name in _states(kind)}}
    return kind(**found)


def pack(states: Mapping[str, State], note: Mapping[str, Any]) -> bytes:
    """Return named states, and a note that JSON can hold, as one safetensors document."""
    named = ((f"{section}/{name}", tensor) for section, state in states.items() for name, tensor in state.items())
    flat = {name: tensor.contiguous() for name, tensor in named}
    return save(flat, {NOTE: json.dumps(dict(note))})


def unpack(content: bytes) -> tuple[dict[str, State], dict[str, Any]]:
    """Return what was packed; states that were empty are not there."""
    try:
        size = int.from_bytes(content[:8], "little")
        note = json.loads(json.loads(content[8 : 8 + size])["__metadata__"][NOTE])
        flat = load(content)
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"this is no message that can be read: {error}") from error
    if not isinstance(note, dict):
        raise UserError(f"the note of a message is a table, not {type(note).__name__}")
    states: dict[str, State] = {}
    for path, tensor in flat.items():
        section, _, name = path.partition("/")
        states.setdefault(section, {})[name] = tensor
    return states, note


@cache
def _check(hint: Any) -> TypeAdapter[Any]:
    """Return what checks values of a type; it takes milliseconds to make."""
    return TypeAdapter(hint)


def _states(kind: type[Any]) -> set[str]:
    """Return the names of the fields that hold tensors."""
    return {name for name, hint in get_type_hints(kind).items() if hint == State}
