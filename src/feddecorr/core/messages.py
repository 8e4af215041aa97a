"""What travels between server and clients, what the server holds, and both as bytes.

Tensors travel as safetensors, all else as JSON in its header. Nothing is ever unpickled.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray
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
from feddecorr.core.states import State
from feddecorr.errors import RunError, UserError, explain_refusal


@dataclass(frozen=True)
class Server:
    """All that the server knows between two rounds: `shared` travels to the clients, `memory` stays."""

    weights: State
    buffers: State
    shared: State = field(default_factory=dict)
    memory: State = field(default_factory=dict)


@dataclass(frozen=True)
class Broadcast:
    """What the server sends to every client of a round."""

    round: int
    weights: State
    buffers: State
    shared: State

    @classmethod
    def of(cls, number: int, server: Server) -> Broadcast:
        """Return what the server sends in that round."""
        return cls(number, server.weights, server.buffers, server.shared)


@dataclass(frozen=True)
class Update:
    """What a client sends back.

    `weights` are the trained weights themselves, not their change: the mean of one client is then that
    client, to the last bit. `amount` is the sum of the learning rates of the local steps, counted as plain SGD
    steps: under momentum, a gradient keeps acting in later steps (FedNova's ‖a‖₁, times the learning rate).
    `metrics` are the means of the objective's terms, `epochs` those of each local epoch where they are recorded.
    `note` is for the run's record: what a reader has to know of this update. `evidence` is what the client found out
    about its model on images of its own, where the server has none. `merged_clients` are further clients, where
    the update is the mean of several by their numbers of examples, of which `examples` is the sum.
    """

    round: int
    client: int
    examples: int
    amount: float
    weights: State
    buffers: State
    extra: State
    metrics: dict[str, float]
    epochs: dict[str, list[float]] = field(default_factory=dict)
    note: str = ""
    evidence: State = field(default_factory=dict)
    merged_clients: list[int] = field(default_factory=list)

    @property
    def clients(self) -> tuple[int, ...]:
        """All clients that the update is of."""
        return self.client, *self.merged_clients


@dataclass(frozen=True)
class Failure:
    """What an engine yields in place of a client's update: why there is none, and the client's own traceback."""

    round: int
    client: int
    cause: str
    trace: str = ""

    @property
    def clients(self) -> tuple[int, ...]:
        """The client alone."""
        return (self.client,)


@dataclass(frozen=True)
class RoundInfo:
    """What the server's hooks are given: the round, the run's seed, and every client's number of examples.

    Before the first round, `round` is 0. `rate` is the share of the clients that a round samples, perhaps on average.
    `classifier` is the name of the classifier's weights, which are of shape (classes, width).
    """

    round: int
    seed: int
    sizes: NDArray[np.int64]
    rate: float = 1.0
    classifier: str = ""

    @property
    def cohort(self) -> int:
        """The number of clients that a round draws, perhaps on average."""
        return round(self.rate * len(self.sizes))

    @property
    def examples(self) -> int:
        """The examples of all clients together."""
        return int(self.sizes.sum())


def failure(number: int, client: int, error: Exception) -> Failure:
    """Return what is known of an error in a client's code; of one with a sentence for users, that sentence alone."""
    if isinstance(error, UserError | RunError):
        return Failure(number, client, str(error))
    said = explain_refusal(error) if isinstance(error, OSError) else str(error)
    return Failure(number, client, f"{type(error).__name__}: {said}", "".join(traceback.format_exception(error)))


NOTE = "feddecorr"
"""The key of the header under which a message says what it is and what it holds apart from tensors."""

MOST_TENSORS = 1 << 16
"""Tensors in a message."""

MOST_TERMS = 64
"""Terms of an objective."""

MOST_EPOCHS = 100_000
"""Local epochs that a client may report."""

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
"""What a message of each kind may hold apart from tensors, as far as it can be checked without knowing the run."""

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
