"""What the adaptive server optimizers have in common: the mean change of the clients is their gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from feddecorr.core.messages import Server
from feddecorr.core.states import State

FIRST, SECOND = "first/", "second/"

SecondMoment = Callable[[Tensor, Tensor], Tensor]
"""From v and the squared change to the next v."""


def start(server: Server, tau: float) -> Server:
    """Let the first moment m begin at 0 and the second, v, at τ²."""
    first = {FIRST + name: torch.zeros_like(weight) for name, weight in server.weights.items()}
    second = {SECOND + name: torch.full_like(weight, tau**2) for name, weight in server.weights.items()}
    return replace(server, memory={**first, **second})


def step(server: Server, mean: State, accumulate: SecondMoment, *, lr: float, beta1: float, tau: float) -> Server:
    """Return w + η·m/(√v + τ) after m ← β₁·m + (1−β₁)·Δ and v ← accumulate(v, Δ²); nothing is bias-corrected."""
    weights: State = {}
    memory: State = {}
    for name, before in server.weights.items():
        change = mean[name] - before
        first = torch.lerp(change, server.memory[FIRST + name], beta1)
        second = accumulate(server.memory[SECOND + name], change.square())
        weights[name] = torch.addcdiv(before, first, second.sqrt().add_(tau), value=lr)
        memory |= {FIRST + name: first, SECOND + name: second}
    return replace(server, weights=weights, memory=memory)
