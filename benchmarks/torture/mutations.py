"""Messages of clients, changed where it hurts: in one field, one name, one number or one byte, all else as it was."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from benchmarks.torture.broken_inputs import mutate
from feddecorr.core.messages import NOTE, Failure, Update, to_bytes
from feddecorr.core.states import State

JSON: list[Any] = [
    None, True, -1, 0, 1, 2**31, 2**63, 10**12, 10**400, 0.5, math.nan, math.inf, -math.inf, 1e308, 1e-320, "", "x",
    "7", "\ud800", "\x1b[2J\x00", "\u202e", "é" * 400, "a" * 100_000, [], {}, [[]], {"a": 1}, [1.0] * 20_000,
    {str(number): 0.0 for number in range(5_000)}, json.loads("[" * 300 + "]" * 300),
]  # fmt: skip
"""What takes the place of a value that JSON can hold."""

OTHERS: list[Any] = [
    b"x", object(), 10**5000, torch.ones(2), {1: 2}, {"x": torch.ones(2)}, {"\ud800": torch.ones(2)}, (1, 2),
    complex(1, 2), Update, range(10**9),
]  # fmt: skip
"""What only a connection in Python can give."""

TENSORS: list[Callable[[Tensor], Any]] = [
    lambda t: torch.full_like(t, math.nan) if t.is_floating_point() else t - 10,
    lambda t: torch.full_like(t, -math.inf) if t.is_floating_point() else torch.full_like(t, 2**63 - 1),
    lambda t: t + 3e38 if t.is_floating_point() else -t - 1,
    lambda t: t * 0 + 1e12 if t.is_floating_point() else t + 2**40,
    lambda t: t * -1e9, lambda t: -t, lambda t: t * 0, lambda t: t.double(), lambda t: t.half(), lambda t: t.bool(),
    lambda t: t.to(torch.complex64), lambda t: t.reshape(-1), lambda t: t[None], lambda t: t.flatten()[:0],
    lambda t: t.to_sparse(), lambda t: t.to("meta"), lambda t: t.clone().requires_grad_(t.is_floating_point()),
    lambda t: t.flatten()[:1].expand(t.numel()).view(t.shape) if t.ndim == 1 else t.mT if t.ndim > 1 else t,
    lambda _: torch.zeros(0, 2**40), lambda _: torch.ones(()), lambda t: t.tolist(), lambda _: None, lambda _: "w",
    lambda t: torch.where(torch.arange(t.numel()).view(t.shape) == 0, math.nan, t.float()).to(t.dtype),
]  # fmt: skip
"""What takes the place of a tensor."""

STATES = ("weights", "buffers", "extra", "evidence")


def change_update(update: Update, chance: random.Random) -> list[Update | Failure]:
    """Return what comes in place of an update: mostly the same with one or two fields changed."""
    kind = chance.randrange(20)
    if kind == 0:
        return []
    if kind == 1:
        return [update, update]
    if kind == 2:
        cause = chance.choice(["\ud800", "\x1b[2J", "a" * 10**6, "", "line\nline", "\u202e"])
        return [Failure(update.round, update.client, cause, cause * 2)]
    if kind == 3:
        return [replace(update, client=chance.choice([0, 1, 9, 99, -1, 2**70])), update]
    for _ in range(chance.choice([1, 1, 2])):
        update = _change_field(update, chance)
    return [update]


def _change_field(update: Update, chance: random.Random) -> Update:
    name = chance.choice([field.name for field in fields(update)])
    if name in STATES and _is_whole(state := getattr(update, name)) and chance.random() < 0.8:
        return _with(update, name, _change_state(state, chance))
    value = getattr(update, name)
    if isinstance(value, dict) and chance.random() < 0.6:
        return _with(update, name, change_json(value, chance))
    return _with(update, name, chance.choice([*JSON, *JSON, *OTHERS]))


def _is_whole(state: object) -> bool:
    """Return whether it still is tensors by name, and some."""
    return isinstance(state, dict) and bool(state) and all(isinstance(each, Tensor) for each in state.values())


def _with(update: Update, name: str, value: Any) -> Update:
    return Update(**{**vars(update), name: value})


def _change_state(state: State, chance: random.Random) -> dict[str, Any]:
    changed: dict[str, Any] = dict(state)
    name = chance.choice(list(state))
    kind = chance.randrange(10)
    if kind == 0:
        del changed[name]
    elif kind == 1:
        changed[chance.choice(["\ud800", "\x1b[2J", "x" * 10**5, "a/b", ""])] = state[name]
    elif kind == 2:
        changed |= {str(number): state[name] for number in range(2_000)}
    else:
        changed[name] = chance.choice(TENSORS)(state[name].detach().clone())
    return changed


def change_json(document: Any, chance: random.Random) -> Any:
    """Return a document with one value, or one name, replaced."""
    if isinstance(document, dict) and document and chance.random() < 0.8:
        key = chance.choice(list(document))
        kind = chance.randrange(10)
        if kind == 0:
            return {name: value for name, value in document.items() if name != key}
        if kind == 1:
            name = chance.choice(["x", "\ud800", "\x1b[2J", "n" * 10**4])
            return {**document, name: document[key]}
        return {**document, key: change_json(document[key], chance)}
    if isinstance(document, list) and document and chance.random() < 0.8:
        place = chance.randrange(len(document))
        return [*document[:place], change_json(document[place], chance), *document[place + 1 :]]
    return chance.choice(JSON)


def change_bytes(update: Update, chance: random.Random) -> bytes:
    """Return the bytes of a message in which a field, a tensor or some bytes are changed."""
    if chance.random() < 0.3:
        return mutate(to_bytes(update), chance)
    if chance.random() < 0.5:
        name = chance.choice(["weights", "buffers", "extra"])
        state = _change_state(getattr(update, name), chance) if getattr(update, name) else {}
        try:
            return to_bytes(_with(update, name, state))
        except Exception:  # not all of it can be written at all
            return to_bytes(update)
    content = to_bytes(update)
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    note = json.dumps(change_json(json.loads(header["__metadata__"][NOTE]), chance))
    if chance.random() < 0.1:
        note = chance.choice(["[" * 100_000, '{"kind":', "NaN", note * 2, '{"a":1e999}'])
    states = {section: getattr(update, section) for section in STATES}
    flat = {f"{section}/{name}": each.contiguous() for section, state in states.items() for name, each in state.items()}
    return save(flat, {NOTE: note})
